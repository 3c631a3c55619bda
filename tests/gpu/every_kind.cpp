// Uses every kind of allocation once and leaks each. Sizes are all different, so that a tool's list can be told apart by them; the comment
// at the end of a line says what it is called in the table.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call) check(static_cast<int>(call), #call)

static void check(int result, const char* call) {
  if (result == 0) return;
  std::fprintf(stderr, "%s: error %d\n", call, result);
  std::exit(1);
}

constexpr size_t kMiB = 1 << 20;

static CUmemGenericAllocationHandle create(size_t size) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, size, &properties, 0));  // [cuMemCreate]
  return handle;
}

int main() {
  void* p;
  size_t pitch;
  CUdeviceptr address;
  CHECK(cudaMalloc(&p, 3 * kMiB));                                // [cudaMalloc]
  CHECK(cudaMallocPitch(&p, &pitch, 4096, 1280));                  // [cudaMallocPitch]
  CHECK(cudaMallocManaged(&p, 7 * kMiB));                         // [cudaMallocManaged]
  CHECK(cudaMallocAsync(&p, 9 * kMiB, nullptr));                  // [cudaMallocAsync]
  CHECK(cuMemAlloc(&address, 11 * kMiB));                         // [cuMemAlloc]
  CHECK(cudaMallocHost(&p, 13 * kMiB));                           // [cudaMallocHost]
  p = std::aligned_alloc(4096, 15 * kMiB);
  CHECK(cudaHostRegister(p, 15 * kMiB, 0));                       // [cudaHostRegister]
  cudaArray_t array;
  const cudaChannelFormatDesc floats = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
  CHECK(cudaMallocArray(&array, &floats, 1024, 4352));            // [cudaMallocArray]
  cudaMipmappedArray_t mipmapped;
  CHECK(cudaMallocMipmappedArray(&mipmapped, &floats, cudaExtent{1024, 1024, 0}, 3));  // [cudaMallocMipmappedArray]
  create(20 * kMiB);
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));                               // [cudaStreamCreate]
  cudaEvent_t event;
  CHECK(cudaEventCreate(&event));                                 // [cudaEventCreate]
  cudaMemPool_t pool;
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, {0}};
  CHECK(cudaMemPoolCreate(&pool, &properties));                   // [cudaMemPoolCreate]
  CHECK(cudaMallocFromPoolAsync(&p, 23 * kMiB, pool, stream));    // [cudaMallocFromPoolAsync]
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));                              // [cudaGraphCreate]
  cudaGraphNode_t node;
  cudaMemAllocNodeParams allocation = {};
  allocation.poolProps = properties;
  allocation.bytesize = 25 * kMiB;
  CHECK(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &allocation));  // [graph memory]
  cudaGraphExec_t instance;
  CHECK(cudaGraphInstantiate(&instance, graph, 0));               // [cudaGraphInstantiate]
  CHECK(cudaGraphLaunch(instance, stream));
  CHECK(cudaStreamSynchronize(stream));
}

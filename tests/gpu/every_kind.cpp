// Uses every kind of allocation once and leaks each. Sizes are all different, so that a tool's list can be told apart by them; the comment
// at the end of a line says what it is called in the table.
#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <cufft.h>
#include <curand.h>
#include <cusolverDn.h>
#include <cusparse.h>

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

// A context of its own with a share of the multiprocessors.
static int green_context() {
  CUdevResource all, some[1];
  CUdevResourceDesc description;
  CUgreenCtx context;
  unsigned groups = 1;
  CHECK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(cuDevSmResourceSplitByCount(some, &groups, &all, nullptr, 0, 16));
  CHECK(cuDevResourceGenerateDesc(&description, some, 1));
  return cuGreenCtxCreate(&context, description, 0, CU_GREEN_CTX_DEFAULT_STREAM);  // [cuGreenCtxCreate]
}

static cublasHandle_t cublas;
static cufftHandle plan;
static cusparseHandle_t cusparse;
static cusolverDnHandle_t cusolver;
static curandGenerator_t curand;

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
  CHECK(cuMemAddressReserve(&address, 32 * kMiB, 0, 0, 0));       // [cuMemAddressReserve]
  cudaUserObject_t object;
  CHECK(cudaUserObjectCreate(&object, p, [](void*) {}, 1, cudaUserObjectNoDestructorSync));  // [cudaUserObjectCreate]
  CHECK(cublasCreate(&cublas));                                   // [cublasCreate]
  CHECK(cufftPlan1d(&plan, 1 << 20, CUFFT_C2C, 1));               // [cufftPlan1d]
  CHECK(cusparseCreate(&cusparse));                               // [cusparseCreate]
  CHECK(cusolverDnCreate(&cusolver));                             // [cusolverDnCreate]
  CHECK(curandCreateGenerator(&curand, CURAND_RNG_PSEUDO_XORWOW));  // [curandCreateGenerator]
  CHECK(green_context());
  CUcontext context;
  CHECK(cuCtxCreate(&context, nullptr, 0, 0));                    // [cuCtxCreate]
  CHECK(cudaStreamSynchronize(stream));
}

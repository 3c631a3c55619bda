// Forty rounds of one of the driver's rarer ways to memory or to a handle, each given back (balanced) or not (leaks):
//     every_way WAY balanced|leaks
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "check.h"

constexpr size_t kPiece = 2 << 20;

#define CHECK_DRIVER(call)                                                                            \
  do {                                                                                                \
    if (const CUresult error_ = (call)) std::fprintf(stderr, "%s: %d\n", #call, error_), std::exit(1); \
  } while (0)

extern "C" CUresult cuGraphicsGLRegisterBuffer(CUgraphicsResource*, unsigned buffer, unsigned flags);

static bool leaks;

static CUmemGenericAllocationHandle create(unsigned short usage = 0) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.allocFlags.usage = usage;
  CUmemGenericAllocationHandle handle;
  CHECK_DRIVER(cuMemCreate(&handle, kPiece, &properties, 0));
  return handle;
}

static cudaExternalMemory_t import() {
  const int file = memfd_create("external", MFD_CLOEXEC);
  if (ftruncate(file, kPiece) != 0) std::exit(1);
  cudaExternalMemoryHandleDesc description = {};
  description.type = cudaExternalMemoryHandleTypeOpaqueFd;
  description.handle.fd = file;
  description.size = kPiece;
  cudaExternalMemory_t memory;
  CHECK(cudaImportExternalMemory(&memory, &description));
  return memory;
}

static void external_memory() {
  cudaExternalMemory_t memory = import();
  if (!leaks) CHECK(cudaDestroyExternalMemory(memory));
}

static void mapped_buffer() {
  cudaExternalMemory_t memory = import();
  cudaExternalMemoryBufferDesc description = {};
  description.size = kPiece;
  void* buffer;
  CHECK(cudaExternalMemoryGetMappedBuffer(&buffer, memory, &description));
  CHECK(cudaDestroyExternalMemory(memory));  // the buffer outlives it
  if (!leaks) CHECK(cudaFree(buffer));
}

static void graphics() {
  CUgraphicsResource resource;
  CHECK_DRIVER(cuGraphicsGLRegisterBuffer(&resource, 1, 0));
  if (!leaks) CHECK_DRIVER(cuGraphicsUnregisterResource(resource));
}

static void user_object() {
  cudaUserObject_t object;
  CHECK(cudaUserObjectCreate(&object, &leaks, [](void*) {}, 3, cudaUserObjectNoDestructorSync));
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  CHECK(cudaUserObjectRelease(object, leaks ? 1 : 2));
  CHECK(cudaGraphDestroy(graph));
}

static void green_context() {
  CUdevResource multiprocessors;
  CUdevResourceDesc description;
  CUgreenCtx context;
  CHECK_DRIVER(cuDeviceGetDevResource(0, &multiprocessors, CU_DEV_RESOURCE_TYPE_SM));
  CHECK_DRIVER(cuDevResourceGenerateDesc(&description, &multiprocessors, 1));
  CHECK_DRIVER(cuGreenCtxCreate(&context, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  if (!leaks) CHECK_DRIVER(cuGreenCtxDestroy(context));
}

// The memory is let go of; what binds it is not.
static void multicast() {
  CUmulticastObjectProp properties = {};
  properties.numDevices = 1;
  properties.size = kPiece;
  CUmemGenericAllocationHandle object, memory = create();
  CHECK_DRIVER(cuMulticastCreate(&object, &properties));
  CHECK_DRIVER(cuMulticastAddDevice(object, 0));
  CHECK_DRIVER(cuMulticastBindMem(object, 0, memory, 0, kPiece, 0));
  CHECK_DRIVER(cuMemRelease(memory));
  if (leaks) return;
  CHECK_DRIVER(cuMulticastUnbind(object, 0, 0, kPiece));
  CHECK_DRIVER(cuMemRelease(object));
}

static void multicast_object() {  // releasing it unbinds
  CUmulticastObjectProp properties = {};
  properties.numDevices = 1;
  properties.size = kPiece;
  CUmemGenericAllocationHandle object, memory = create();
  CHECK_DRIVER(cuMulticastCreate(&object, &properties));
  CHECK_DRIVER(cuMulticastAddDevice(object, 0));
  CHECK_DRIVER(cuMulticastBindMem(object, 0, memory, 0, kPiece, 0));
  CHECK_DRIVER(cuMemRelease(memory));
  if (!leaks) CHECK_DRIVER(cuMemRelease(object));
}

static void sparse_array() {
  const CUDA_ARRAY3D_DESCRIPTOR description = {512, 512, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SPARSE};
  CUarray array;
  CHECK_DRIVER(cuArray3DCreate(&array, &description));
  CUarrayMapInfo map = {};
  map.resourceType = CU_RESOURCE_TYPE_ARRAY;
  map.resource.array = array;
  map.subresource.sparseLevel.extentWidth = map.subresource.sparseLevel.extentHeight = 512;
  map.subresource.sparseLevel.extentDepth = 1;
  map.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
  map.memHandle.memHandle = create(CU_MEM_CREATE_USAGE_TILE_POOL);
  map.deviceBitMask = 1;
  CHECK_DRIVER(cuMemMapArrayAsync(&map, 1, nullptr));
  CHECK_DRIVER(cuMemRelease(map.memHandle.memHandle));
  if (!leaks) CHECK_DRIVER(cuArrayDestroy(array));  // what is mapped goes with it
}

static void host_pool() {
  static cudaMemPool_t pool;
  if (!pool) {
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeHost, {0}};
    CHECK(cudaMemPoolCreate(&pool, &properties));
  }
  void* block;
  CHECK(cudaMallocFromPoolAsync(&block, kPiece, pool, nullptr));
  if (!leaks) CHECK(cudaFreeAsync(block, nullptr));
}

// A graph that allocates and leaves the free to the next launch: that of the last one never comes, so a new graph each time leaks.
static void auto_free() {
  cudaGraph_t graph;
  cudaGraphNode_t node;
  cudaGraphExec_t instance;
  cudaMemAllocNodeParams allocation = {};
  allocation.poolProps.allocType = cudaMemAllocationTypePinned;
  allocation.poolProps.location = {cudaMemLocationTypeDevice, {0}};
  allocation.bytesize = kPiece;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &allocation));
  CHECK(cudaGraphInstantiate(&instance, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
  for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(instance, nullptr));
  CHECK(cudaDeviceSynchronize());
  if (!leaks) CHECK(cudaFree(allocation.dptr));
  CHECK(cudaGraphExecDestroy(instance));
  CHECK(cudaGraphDestroy(graph));
}

struct {
  const char* name;
  void (*once)();
} constexpr kWays[] = {
    {"external-memory", external_memory}, {"mapped-buffer", mapped_buffer},       {"graphics", graphics},
    {"user-object", user_object},         {"green-context", green_context},       {"multicast", multicast},
    {"multicast-object", multicast_object}, {"sparse-array", sparse_array},       {"host-pool", host_pool},
    {"auto-free", auto_free},
};

int main(int, char** argv) {
  leaks = argv[2] == std::string("leaks");
  CHECK(cudaFree(nullptr));
  for (const auto& way : kWays) {
    if (argv[1] != std::string(way.name)) continue;
    for (int i = 0; i < 40; i++) {
      way.once();
      void* other;
      CHECK(cudaMalloc(&other, 4096));
      CHECK(cudaFree(other));
    }
    return 0;
  }
  return 2;
}

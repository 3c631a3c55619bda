// The wrappers of stream-ordered memory and of the pools that it comes from.
#include "interpose/driver_calls.h"

using namespace vramtrack;
using format::Kind;

namespace {

CUresult free_on_stream(decltype(&cuMemFreeAsync) real, CUdeviceptr address, CUstream stream, DefaultStream default_stream) {
  if (const CUgraph graph = address ? captured_graph(stream, default_stream) : nullptr) {
    const CUresult result = real(address, stream);
    if (result == CUDA_SUCCESS) graph_node_added({(uint64_t)graph, address, 0, -1});
    return result;
  }
  return freed(FreeFamily::kDeviceMemory, address, real, address, stream);
}

int device_of(const CUmemPoolProps* properties) {
  return properties && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? properties->location.id : -1;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* address, size_t size, CUstream stream) {
  const Call call("cuMemAllocAsync", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kStreamOrdered, size);
  return allocation.finish_on_stream(VRAMTRACK_REAL(cuMemAllocAsync)(address, size, stream), address, nullptr, stream,
                                     DefaultStream::kLegacy);
}

CUresult CUDAAPI cuMemAllocAsync_ptsz(CUdeviceptr* address, size_t size, CUstream stream) {
  const Call call("cuMemAllocAsync", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kStreamOrdered, size);
  return allocation.finish_on_stream(VRAMTRACK_REAL(cuMemAllocAsync_ptsz)(address, size, stream), address, nullptr, stream,
                                     DefaultStream::kPerThread);
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t size, CUmemoryPool pool, CUstream stream) {
  const Call call("cuMemAllocFromPoolAsync", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kStreamOrdered, size);
  return allocation.finish_on_stream(VRAMTRACK_REAL(cuMemAllocFromPoolAsync)(address, size, pool, stream), address, pool,
                                     stream, DefaultStream::kLegacy);
}

CUresult CUDAAPI cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* address, size_t size, CUmemoryPool pool, CUstream stream) {
  const Call call("cuMemAllocFromPoolAsync", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kStreamOrdered, size);
  return allocation.finish_on_stream(VRAMTRACK_REAL(cuMemAllocFromPoolAsync_ptsz)(address, size, pool, stream), address, pool,
                                     stream, DefaultStream::kPerThread);
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  const Call call("cuMemFreeAsync", VRAMTRACK_CALL_SITE);
  return free_on_stream(VRAMTRACK_REAL(cuMemFreeAsync), address, stream, DefaultStream::kLegacy);
}

CUresult CUDAAPI cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  const Call call("cuMemFreeAsync", VRAMTRACK_CALL_SITE);
  return free_on_stream(VRAMTRACK_REAL(cuMemFreeAsync_ptsz), address, stream, DefaultStream::kPerThread);
}

// --- pools -----------------------------------------------------------------------------------------------------------------

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  const Call call("cuMemPoolCreate", VRAMTRACK_CALL_SITE);
  const CUresult result = made(Kind::kMemoryPool, VRAMTRACK_REAL(cuMemPoolCreate)(pool, properties), pool);
  if (result == CUDA_SUCCESS && pool) pool_made({(uint64_t)*pool, device_of(properties), false});
  return result;
}

// With blocks still alive the driver keeps it until they are freed; to the program it is gone.
CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool) {
  const CUresult result = destroyed(Kind::kMemoryPool, pool, VRAMTRACK_REAL(cuMemPoolDestroy));
  if (result == CUDA_SUCCESS) pool_gone((uint64_t)pool);
  return result;
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  const Call call("cuMemPoolSetAttribute", VRAMTRACK_CALL_SITE);
  const CUresult result = VRAMTRACK_REAL(cuMemPoolSetAttribute)(pool, attribute, value);
  if (result == CUDA_SUCCESS && attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    tell_threshold(pool, *static_cast<const cuuint64_t*>(value));
  }
  return result;
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  const CUresult result = VRAMTRACK_REAL(cuMemPoolTrimTo)(pool, keep);
  if (result == CUDA_SUCCESS) ask_pool(pool, 0);
  return result;
}

CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool* pool, void* shared, CUmemAllocationHandleType type,
                                                    unsigned long long flags) {
  const Call call("cuMemPoolImportFromShareableHandle", VRAMTRACK_CALL_SITE);
  const CUresult result = made(Kind::kMemoryPool, VRAMTRACK_REAL(cuMemPoolImportFromShareableHandle)(pool, shared, type, flags), pool);
  if (result == CUDA_SUCCESS && pool) pool_made({(uint64_t)*pool, -1, true});
  return result;
}

CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr* address, CUmemoryPool pool, CUmemPoolPtrExportData* shared) {
  const Call call("cuMemPoolImportPointer", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kShared, 0);
  const CUresult result = VRAMTRACK_REAL(cuMemPoolImportPointer)(address, pool, shared);
  return allocation.finish(result, address, result == CUDA_SUCCESS && address ? size_at(*address) : 0);
}

// Their own names, whatever another preloaded library does with the exported ones; see driver_hooks.cpp.
#define POOL_HOOK(name) \
  __attribute__((visibility("hidden"), alias(#name), copy(name))) decltype(name) vramtrack_##name;
#include "interpose/hooks.def"

}  // extern "C"

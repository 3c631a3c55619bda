// The wrappers of memory that is more than an address: physical memory with its handles and mappings, and other processes' memory.
#include "interpose/driver_calls.h"

using namespace vramtrack;
using format::Kind;

namespace {

bool is_on_device(const CUmemLocation& location) { return location.type == CU_MEM_LOCATION_TYPE_DEVICE; }

// The device is the one asked for, whichever context is current.
int device_of(const CUmemAllocationProp* properties) {
  return properties && is_on_device(properties->location) ? properties->location.id : -1;
}

CUresult opened(CUresult result, const CUdeviceptr* address) {
  if (result == CUDA_SUCCESS && address && *address) tell_opened_memory(*address);
  return result;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* properties,
                             unsigned long long flags) {
  const Call call("cuMemCreate", VRAMTRACK_CALL_SITE);
  const CUresult result = VRAMTRACK_REAL(cuMemCreate)(handle, size, properties, flags);
  const int device = device_of(properties);
  if (result == CUDA_SUCCESS && handle) tell_counted_memory({Kind::kPhysical, device, *handle, size, 0, false});
  if (result != CUDA_SUCCESS) tell_refused({Kind::kPhysical, device, size, result, result == CUDA_ERROR_OUT_OF_MEMORY});
  return result;
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shared, CUmemAllocationHandleType type) {
  const Call call("cuMemImportFromShareableHandle", VRAMTRACK_CALL_SITE);
  const CUresult result = VRAMTRACK_REAL(cuMemImportFromShareableHandle)(handle, shared, type);
  if (result == CUDA_SUCCESS && handle) tell_imported_memory(*handle);
  return result;
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  PendingRelease pending(Kind::kPhysical, handle);
  const CUresult result = VRAMTRACK_REAL(cuMemRelease)(handle);
  pending.finish(result);
  return result;
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  const CUresult result = VRAMTRACK_REAL(cuMemRetainAllocationHandle)(handle, address);
  if (result == CUDA_SUCCESS && handle) physical_memory_retained((uint64_t)address, *handle);
  return result;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags) {
  const CUresult result = VRAMTRACK_REAL(cuMemMap)(address, size, offset, handle, flags);
  if (result == CUDA_SUCCESS) physical_memory_mapped(address, size, handle);
  return result;
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t size) {
  PendingUnmap pending(address, size);
  const CUresult result = VRAMTRACK_REAL(cuMemUnmap)(address, size);
  pending.finish(result);
  return result;
}

CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
  const Call call("cuIpcOpenMemHandle", VRAMTRACK_CALL_SITE);
  return opened(VRAMTRACK_REAL(cuIpcOpenMemHandle)(address, handle, flags), address);
}

CUresult CUDAAPI cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
  const Call call("cuIpcOpenMemHandle", VRAMTRACK_CALL_SITE);
  return opened(VRAMTRACK_REAL(cuIpcOpenMemHandle_v2)(address, handle, flags), address);
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr address) {
  PendingRelease pending(Kind::kIpc, address);
  const CUresult result = VRAMTRACK_REAL(cuIpcCloseMemHandle)(address);
  pending.finish(result);
  return result;
}

// Their own names, whatever another preloaded library does with the exported ones; see driver_hooks.cpp.
#define MAPPING_HOOK(name) \
  __attribute__((visibility("hidden"), alias(#name), copy(name))) decltype(name) vramtrack_##name;
#include "interpose/hooks.def"

}  // extern "C"

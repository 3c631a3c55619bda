// The wrappers of memory that is more than an address: physical memory with its handles and mappings, and other processes' memory.
#include "interpose/driver_calls.h"
#include "interpose/hash.h"

using namespace vramtrack;
using format::Kind;

namespace {

bool is_on_device(const CUmemLocation& location) { return location.type == CU_MEM_LOCATION_TYPE_DEVICE; }

// The device is the one asked for, whichever context is current.
int device_of(const CUmemAllocationProp* properties) {
  return properties && is_on_device(properties->location) ? properties->location.id : -1;
}

// Which part of a sparse array a piece of work names: a tile of a level, or a level's tail. Equal for equal parts.
BoundPlace place_of(const CUarrayMapInfo& map) {
  const bool is_mipmapped = map.resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  const uint64_t object = is_mipmapped ? (uint64_t)map.resource.mipmap : (uint64_t)map.resource.array;
  if (map.subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL) {
    const auto& tail = map.subresource.miptail;
    return {object, hash_mix(~uint64_t{tail.layer}, tail.offset), 0};
  }
  const auto& tile = map.subresource.sparseLevel;
  const uint64_t of_level = hash_mix(uint64_t{tile.level} << 32 | tile.layer, tile.offsetX);
  return {object, hash_mix(of_level, uint64_t{tile.offsetY} << 32 | tile.offsetZ), 0};
}

// Carried out when the stream gets there; counted at once.
CUresult arrays_mapped(CUresult result, const CUarrayMapInfo* maps, unsigned count) {
  for (unsigned i = 0; result == CUDA_SUCCESS && maps && i < count; ++i) {
    if (maps[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP) physical_memory_bound(place_of(maps[i]), 1, maps[i].memHandle.memHandle);
    else physical_memory_unbound(place_of(maps[i]), 1);
  }
  return result;
}

CUresult opened(CUresult result, const CUdeviceptr* address) {
  if (result == CUDA_SUCCESS && address && *address) tell_opened_memory(*address);
  return result;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* address, size_t size, size_t alignment, CUdeviceptr hint, unsigned long long flags) {
  const Call call("cuMemAddressReserve", VRAMTRACK_CALL_SITE);
  return made(Kind::kAddressRange, VRAMTRACK_REAL(cuMemAddressReserve)(address, size, alignment, hint, flags), address);
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr address, size_t size) {
  PendingFree pending(address, Kind::kAddressRange);
  const CUresult result = VRAMTRACK_REAL(cuMemAddressFree)(address, size);
  pending.finish(result);
  return result;
}

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

CUresult CUDAAPI cuMemMapArrayAsync(CUarrayMapInfo* maps, unsigned count, CUstream stream) {
  return arrays_mapped(VRAMTRACK_REAL(cuMemMapArrayAsync)(maps, count, stream), maps, count);
}

CUresult CUDAAPI cuMemMapArrayAsync_ptsz(CUarrayMapInfo* maps, unsigned count, CUstream stream) {
  return arrays_mapped(VRAMTRACK_REAL(cuMemMapArrayAsync_ptsz)(maps, count, stream), maps, count);
}

// --- multicast: an object without memory, to which each device's memory is bound -----------------------------------------------

CUresult CUDAAPI cuMulticastCreate(CUmemGenericAllocationHandle* object, const CUmulticastObjectProp* properties) {
  const Call call("cuMulticastCreate", VRAMTRACK_CALL_SITE);
  const CUresult result = VRAMTRACK_REAL(cuMulticastCreate)(object, properties);
  if (result == CUDA_SUCCESS && object) tell_counted_memory({Kind::kMulticast, -1, *object, 1, 0, false});
  return result;
}

CUresult CUDAAPI cuMulticastBindMem(CUmemGenericAllocationHandle object, size_t offset, CUmemGenericAllocationHandle memory,
                                    size_t memory_offset, size_t size, unsigned long long flags) {
  const CUresult result = VRAMTRACK_REAL(cuMulticastBindMem)(object, offset, memory, memory_offset, size, flags);
  if (result == CUDA_SUCCESS) physical_memory_bound({object, (uint64_t)device_of_memory(memory), offset}, size, memory);
  return result;
}

CUresult CUDAAPI cuMulticastBindAddr(CUmemGenericAllocationHandle object, size_t offset, CUdeviceptr address, size_t size,
                                     unsigned long long flags) {
  const CUresult result = VRAMTRACK_REAL(cuMulticastBindAddr)(object, offset, address, size, flags);
  if (result == CUDA_SUCCESS) physical_memory_at_bound({object, (uint64_t)device_at(address), offset}, size, address);
  return result;
}

CUresult CUDAAPI cuMulticastUnbind(CUmemGenericAllocationHandle object, CUdevice device, size_t offset, size_t size) {
  const CUresult result = VRAMTRACK_REAL(cuMulticastUnbind)(object, device, offset, size);
  if (result == CUDA_SUCCESS) physical_memory_unbound({object, (uint64_t)device, offset}, size);
  return result;
}

// --- other processes' memory -----------------------------------------------------------------------------------------------------

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

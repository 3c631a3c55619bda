// The wrappers of the driver API: guard, real call, record, return.
//
// The driver is the one layer that every program passes through, so it alone records; what the program wrote lends its name
// (call.h). Every wrapper is a definition of cuda.h's own declaration, under the name of the ABI (driver_api.h).
#include "interpose/array_size.h"
#include "interpose/driver_calls.h"
#include "interpose/torch_hooks.h"

using namespace vramtrack;
using format::Kind;

namespace {

// The pitch is known after the call; before it, the width stands for it.
template <typename Address, typename Size, typename Function>
CUresult allocate_pitch(Function real, Address* address, Size* pitch, Size width, Size height, unsigned element_size) {
  const PendingAllocation allocation(Kind::kDevice, uint64_t{width} * height);
  const CUresult result = real(address, pitch, width, height, element_size);
  return allocation.finish(result, address, uint64_t{result == CUDA_SUCCESS && pitch ? *pitch : width} * height);
}

}  // namespace

extern "C" {

// --- how everything else is reached ----------------------------------------------------------------------------------------

CUresult CUDAAPI cuInit(unsigned flags) {
  find_torch();
  prepare_recording();
  return VRAMTRACK_REAL(cuInit)(flags);
}

CUresult CUDAAPI cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags) {
  const CUresult result = VRAMTRACK_REAL(cuGetProcAddress)(name, function, version, flags);
  if (result == CUDA_SUCCESS && function) *function = wrapper_for(name, *function);
  return result;
}

CUresult CUDAAPI cuGetProcAddress_v2(const char* name, void** function, int version, cuuint64_t flags,
                                     DriverProcAddressStatus* status) {
  const CUresult result = VRAMTRACK_REAL(cuGetProcAddress_v2)(name, function, version, flags, status);
  if (result == CUDA_SUCCESS && function) *function = wrapper_for(name, *function);
  return result;
}

// --- linear memory ---------------------------------------------------------------------------------------------------------

CUresult CUDAAPI cuMemAlloc(CUdeviceptr_v1* address, unsigned size) {
  const Call call("cuMemAlloc", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kDevice, size);
  return allocation.finish(VRAMTRACK_REAL(cuMemAlloc)(address, size), address);
}

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr* address, size_t size) {
  const Call call("cuMemAlloc", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kDevice, size);
  return allocation.finish(VRAMTRACK_REAL(cuMemAlloc_v2)(address, size), address);
}

CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr_v1* address, unsigned* pitch, unsigned width, unsigned height, unsigned element) {
  const Call call("cuMemAllocPitch", VRAMTRACK_CALL_SITE);
  return allocate_pitch(VRAMTRACK_REAL(cuMemAllocPitch), address, pitch, width, height, element);
}

CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height, unsigned element) {
  const Call call("cuMemAllocPitch", VRAMTRACK_CALL_SITE);
  return allocate_pitch(VRAMTRACK_REAL(cuMemAllocPitch_v2), address, pitch, width, height, element);
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* address, size_t size, unsigned flags) {
  const Call call("cuMemAllocManaged", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kManaged, size);
  return allocation.finish(VRAMTRACK_REAL(cuMemAllocManaged)(address, size, flags), address);
}

CUresult CUDAAPI cuMemFree(CUdeviceptr_v1 address) {
  const Call call("cuMemFree", VRAMTRACK_CALL_SITE);
  return freed(FreeFamily::kDeviceMemory, address, VRAMTRACK_REAL(cuMemFree), address);
}

CUresult CUDAAPI cuMemFree_v2(CUdeviceptr address) {
  const Call call("cuMemFree", VRAMTRACK_CALL_SITE);
  return freed(FreeFamily::kDeviceMemory, address, VRAMTRACK_REAL(cuMemFree_v2), address);
}

// --- host memory -----------------------------------------------------------------------------------------------------------

CUresult CUDAAPI cuMemAllocHost(void** address, unsigned size) {
  const Call call("cuMemAllocHost", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kPinned, size);
  return allocation.finish(VRAMTRACK_REAL(cuMemAllocHost)(address, size), address);
}

CUresult CUDAAPI cuMemAllocHost_v2(void** address, size_t size) {
  const Call call("cuMemAllocHost", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kPinned, size);
  return allocation.finish(VRAMTRACK_REAL(cuMemAllocHost_v2)(address, size), address);
}

CUresult CUDAAPI cuMemHostAlloc(void** address, size_t size, unsigned flags) {
  const Call call("cuMemHostAlloc", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kPinned, size);
  return allocation.finish(VRAMTRACK_REAL(cuMemHostAlloc)(address, size, flags), address);
}

CUresult CUDAAPI cuMemFreeHost(void* address) {
  const Call call("cuMemFreeHost", VRAMTRACK_CALL_SITE);
  return freed(FreeFamily::kPinned, address, VRAMTRACK_REAL(cuMemFreeHost), address);
}

CUresult CUDAAPI cuMemHostRegister(void* address, size_t size, unsigned flags) {
  const Call call("cuMemHostRegister", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kRegistered, size);
  return allocation.finish(VRAMTRACK_REAL(cuMemHostRegister)(address, size, flags), &address);
}

CUresult CUDAAPI cuMemHostRegister_v2(void* address, size_t size, unsigned flags) {
  const Call call("cuMemHostRegister", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kRegistered, size);
  return allocation.finish(VRAMTRACK_REAL(cuMemHostRegister_v2)(address, size, flags), &address);
}

CUresult CUDAAPI cuMemHostUnregister(void* address) {
  const Call call("cuMemHostUnregister", VRAMTRACK_CALL_SITE);
  return freed(FreeFamily::kRegistered, address, VRAMTRACK_REAL(cuMemHostUnregister), address);
}

// --- arrays ----------------------------------------------------------------------------------------------------------------

CUresult CUDAAPI cuArrayCreate(CUarray* array, const CUDA_ARRAY_DESCRIPTOR_v1* descriptor) {
  const Call call("cuArrayCreate", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kArray, array_bytes(shape_of(descriptor)));
  return allocation.finish(VRAMTRACK_REAL(cuArrayCreate)(array, descriptor), array);
}

CUresult CUDAAPI cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR_v2* descriptor) {
  const Call call("cuArrayCreate", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kArray, array_bytes(shape_of(descriptor)));
  return allocation.finish(VRAMTRACK_REAL(cuArrayCreate_v2)(array, descriptor), array);
}

CUresult CUDAAPI cuArray3DCreate(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR_v1* descriptor) {
  const Call call("cuArray3DCreate", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kArray, array_bytes(shape_of(descriptor)));
  return allocation.finish(VRAMTRACK_REAL(cuArray3DCreate)(array, descriptor), array);
}

CUresult CUDAAPI cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR_v2* descriptor) {
  const Call call("cuArray3DCreate", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kArray, array_bytes(shape_of(descriptor)));
  return allocation.finish(VRAMTRACK_REAL(cuArray3DCreate_v2)(array, descriptor), array);
}

CUresult CUDAAPI cuArrayDestroy(CUarray array) {
  const Call call("cuArrayDestroy", VRAMTRACK_CALL_SITE);
  const CUresult result = freed(FreeFamily::kArray, array, VRAMTRACK_REAL(cuArrayDestroy), array);
  if (result == CUDA_SUCCESS) bound_object_gone((uint64_t)array);
  return result;
}

CUresult CUDAAPI cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR_v2* descriptor,
                                        unsigned levels) {
  const Call call("cuMipmappedArrayCreate", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kMipmappedArray, mipmapped_array_bytes(shape_of(descriptor), levels));
  return allocation.finish(VRAMTRACK_REAL(cuMipmappedArrayCreate)(array, descriptor, levels), array);
}

CUresult CUDAAPI cuMipmappedArrayDestroy(CUmipmappedArray array) {
  const Call call("cuMipmappedArrayDestroy", VRAMTRACK_CALL_SITE);
  const CUresult result = freed(FreeFamily::kMipmappedArray, array, VRAMTRACK_REAL(cuMipmappedArrayDestroy), array);
  if (result == CUDA_SUCCESS) bound_object_gone((uint64_t)array);
  return result;
}

// The exported names may be taken by another preloaded library; these are ours whatever happens.
#define DRIVER_ONLY_HOOKS
#define DRIVER_HOOK(name) \
  __attribute__((visibility("hidden"), alias(#name), copy(name))) decltype(name) vramtrack_##name;
#include "interpose/hooks.def"

}  // extern "C"

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

// Both generations of descriptors have these fields, in 32 and in 64 bits.
template <typename Descriptor>
ArrayShape shape(const Descriptor* array) {
  if (!array) return {};
  ArrayShape shape{array->Width, array->Height, 1, array->Format, array->NumChannels, 0};
  if constexpr (requires { array->Depth; }) {
    shape.depth = array->Depth;
    shape.flags = array->Flags;
  }
  return shape;
}

// The pitch is known after the call; before it, the width stands for it.
template <typename Address, typename Size, typename Function>
CUresult allocate_pitch(Function real, Address* address, Size* pitch, Size width, Size height, unsigned element_size) {
  const PendingAllocation allocation(Kind::kDevice, uint64_t{width} * height);
  const CUresult result = real(address, pitch, width, height, element_size);
  return allocation.finish(result, address, uint64_t{result == CUDA_SUCCESS && pitch ? *pitch : width} * height);
}

CUresult free_on_stream(decltype(&cuMemFreeAsync) real, CUdeviceptr address, CUstream stream, DefaultStream default_stream) {
  if (const CUgraph graph = address ? captured_graph(stream, default_stream) : nullptr) {
    const CUresult result = real(address, stream);
    if (result == CUDA_SUCCESS) graph_node_added({(uint64_t)graph, address, 0, -1});
    return result;
  }
  return freed(FreeFamily::kDeviceMemory, address, real, address, stream);
}

CUresult primary_released(CUdevice device, decltype(&cuDevicePrimaryCtxRelease) real) {
  const CUresult result = real(device);
  if (result == CUDA_SUCCESS && primary_context_is_gone(device)) driver_context_gone(device, 0);
  return result;
}

CUresult primary_reset(CUdevice device, decltype(&cuDevicePrimaryCtxReset) real) {
  const CUresult result = real(device);
  if (result == CUDA_SUCCESS) driver_context_gone(device, 0);
  return result;
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

// --- stream-ordered memory -------------------------------------------------------------------------------------------------

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
  const PendingAllocation allocation(Kind::kArray, array_bytes(shape(descriptor)));
  return allocation.finish(VRAMTRACK_REAL(cuArrayCreate)(array, descriptor), array);
}

CUresult CUDAAPI cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR_v2* descriptor) {
  const Call call("cuArrayCreate", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kArray, array_bytes(shape(descriptor)));
  return allocation.finish(VRAMTRACK_REAL(cuArrayCreate_v2)(array, descriptor), array);
}

CUresult CUDAAPI cuArray3DCreate(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR_v1* descriptor) {
  const Call call("cuArray3DCreate", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kArray, array_bytes(shape(descriptor)));
  return allocation.finish(VRAMTRACK_REAL(cuArray3DCreate)(array, descriptor), array);
}

CUresult CUDAAPI cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR_v2* descriptor) {
  const Call call("cuArray3DCreate", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kArray, array_bytes(shape(descriptor)));
  return allocation.finish(VRAMTRACK_REAL(cuArray3DCreate_v2)(array, descriptor), array);
}

CUresult CUDAAPI cuArrayDestroy(CUarray array) {
  const Call call("cuArrayDestroy", VRAMTRACK_CALL_SITE);
  return freed(FreeFamily::kArray, array, VRAMTRACK_REAL(cuArrayDestroy), array);
}

CUresult CUDAAPI cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR_v2* descriptor,
                                        unsigned levels) {
  const Call call("cuMipmappedArrayCreate", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kMipmappedArray, mipmapped_array_bytes(shape(descriptor), levels));
  return allocation.finish(VRAMTRACK_REAL(cuMipmappedArrayCreate)(array, descriptor, levels), array);
}

CUresult CUDAAPI cuMipmappedArrayDestroy(CUmipmappedArray array) {
  const Call call("cuMipmappedArrayDestroy", VRAMTRACK_CALL_SITE);
  return freed(FreeFamily::kMipmappedArray, array, VRAMTRACK_REAL(cuMipmappedArrayDestroy), array);
}

// --- what takes memory with it ---------------------------------------------------------------------------------------------

CUresult CUDAAPI cuCtxDestroy(CUcontext context) {
  const Call call("cuCtxDestroy", VRAMTRACK_CALL_SITE);
  return context_destroyed(context, VRAMTRACK_REAL(cuCtxDestroy));
}

CUresult CUDAAPI cuCtxDestroy_v2(CUcontext context) {
  const Call call("cuCtxDestroy", VRAMTRACK_CALL_SITE);
  return context_destroyed(context, VRAMTRACK_REAL(cuCtxDestroy_v2));
}

// Destroys when the last user detaches. Contexts with several users need cuCtxAttach, which nothing has used since CUDA 4.
CUresult CUDAAPI cuCtxDetach(CUcontext context) {
  const Call call("cuCtxDetach", VRAMTRACK_CALL_SITE);
  return context_destroyed(context, VRAMTRACK_REAL(cuCtxDetach));
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice device) {
  const Call call("cuDevicePrimaryCtxReset", VRAMTRACK_CALL_SITE);
  return primary_reset(device, VRAMTRACK_REAL(cuDevicePrimaryCtxReset));
}

CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice device) {
  const Call call("cuDevicePrimaryCtxReset", VRAMTRACK_CALL_SITE);
  return primary_reset(device, VRAMTRACK_REAL(cuDevicePrimaryCtxReset_v2));
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
  const Call call("cuDevicePrimaryCtxRelease", VRAMTRACK_CALL_SITE);
  return primary_released(device, VRAMTRACK_REAL(cuDevicePrimaryCtxRelease));
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  const Call call("cuDevicePrimaryCtxRelease", VRAMTRACK_CALL_SITE);
  return primary_released(device, VRAMTRACK_REAL(cuDevicePrimaryCtxRelease_v2));
}

// The exported names may be taken by another preloaded library; these are ours whatever happens.
#define HANDLE_HOOK(name)
#define DRIVER_HOOK(name) \
  __attribute__((visibility("hidden"), alias(#name), copy(name))) decltype(name) vramtrack_##name;
#include "interpose/hooks.def"

}  // extern "C"

// How do cudaMalloc and its relatives reach the driver? Size 0 succeeds with a null pointer and no driver call; freeing null
// only initialises.
#include "runtime_driver.h"

using namespace sim_runtime;

namespace {

constexpr unsigned kPitchElementBytes = 4;

CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
CUdeviceptr* as_address(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }

// Nulls what the caller gets unless the driver allocates.
template <class Allocate>
cudaError_t allocate(void** out, bool empty, Allocate driver_call) {
  return with_context([&] {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    return empty ? CUDA_SUCCESS : driver_call();
  });
}

template <class Free>
cudaError_t release(void* pointer, Free driver_call) {
  return with_context([&] { return pointer == nullptr ? CUDA_SUCCESS : driver_call(); });
}

cudaMemoryType type_of(unsigned memory_type, bool managed) {
  if (managed) return cudaMemoryTypeManaged;
  switch (memory_type) {
    case CU_MEMORYTYPE_HOST: return cudaMemoryTypeHost;
    case CU_MEMORYTYPE_DEVICE: return cudaMemoryTypeDevice;
    default: return cudaMemoryTypeUnregistered;
  }
}

}  // namespace

cudaError_t cudaMalloc(void** out, size_t size_bytes) {
  return allocate(out, size_bytes == 0, [&] { return driver.cuMemAlloc(as_address(out), size_bytes); });
}

cudaError_t cudaMallocManaged(void** out, size_t size_bytes, unsigned int flags) {
  return allocate(out, size_bytes == 0, [&] { return driver.cuMemAllocManaged(as_address(out), size_bytes, flags); });
}

cudaError_t cudaMallocPitch(void** out, size_t* pitch, size_t width_bytes, size_t height) {
  if (pitch == nullptr) return record(cudaErrorInvalidValue);
  *pitch = 0;
  return allocate(out, width_bytes == 0 || height == 0, [&] {
    return driver.cuMemAllocPitch(as_address(out), pitch, width_bytes, height, kPitchElementBytes);
  });
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* out, cudaExtent extent) {
  if (out == nullptr) return record(cudaErrorInvalidValue);
  size_t rows = extent.height * extent.depth;
  *out = {nullptr, 0, extent.width, extent.height};
  return cudaMallocPitch(&out->ptr, &out->pitch, extent.width, rows);
}

cudaError_t cudaFree(void* pointer) {
  return release(pointer, [&] { return driver.cuMemFree(address_of(pointer)); });
}

cudaError_t cudaHostAlloc(void** out, size_t size_bytes, unsigned int flags) {
  return allocate(out, size_bytes == 0, [&] { return driver.cuMemHostAlloc(out, size_bytes, flags); });
}

cudaError_t cudaMallocHost(void** out, size_t size_bytes) { return cudaHostAlloc(out, size_bytes, cudaHostAllocDefault); }

cudaError_t cudaFreeHost(void* pointer) {
  return release(pointer, [&] { return driver.cuMemFreeHost(pointer); });
}

cudaError_t cudaHostRegister(void* pointer, size_t size_bytes, unsigned int flags) {
  return with_context([&] { return driver.cuMemHostRegister(pointer, size_bytes, flags); });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return with_context([&] { return driver.cuMemHostUnregister(pointer); });
}

cudaError_t cudaHostGetDevicePointer(void** out, void* pointer, unsigned int flags) {
  return with_context([&] { return driver.cuMemHostGetDevicePointer(as_address(out), pointer, flags); });
}

cudaError_t cudaHostGetFlags(unsigned int* flags, void* pointer) {
  return with_context([&] { return driver.cuMemHostGetFlags(flags, pointer); });
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return with_context([&] { return driver.cuMemGetInfo(free_bytes, total_bytes); });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* pointer) {
  return with_context([&] {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    unsigned memory_type = 0;
    int device = -2;
    bool managed = false;
    CUdeviceptr device_pointer = 0;
    void* host_pointer = nullptr;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                        CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                        CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void* values[] = {&memory_type, &device, &managed, &device_pointer, &host_pointer};
    CUresult result = driver.cuPointerGetAttributes(5, attributes, values, address_of(pointer));
    if (result != CUDA_SUCCESS) return result;
    *out = {};
    out->type = type_of(memory_type, managed);
    out->device = device;
    out->devicePointer = reinterpret_cast<void*>(device_pointer);
    out->hostPointer = out->type == cudaMemoryTypeUnregistered ? const_cast<void*>(pointer) : host_pointer;
    return CUDA_SUCCESS;
  });
}

STREAM_API(cudaMallocAsync, _ptsz, (void** out, size_t size_bytes, cudaStream_t stream), {
  return allocate(out, size_bytes == 0, [&] { return calls.cuMemAllocAsync(as_address(out), size_bytes, stream); });
})

STREAM_API(cudaMallocFromPoolAsync, _ptsz, (void** out, size_t size_bytes, cudaMemPool_t pool, cudaStream_t stream), {
  return allocate(out, size_bytes == 0,
                  [&] { return calls.cuMemAllocFromPoolAsync(as_address(out), size_bytes, pool, stream); });
})

STREAM_API(cudaFreeAsync, _ptsz, (void* pointer, cudaStream_t stream), {
  return release(pointer, [&] { return calls.cuMemFreeAsync(address_of(pointer), stream); });
})

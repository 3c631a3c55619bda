// What does the runtime say about devices, versions and the driver's entry points?
#include <cstring>

#include "runtime_driver.h"

using namespace sim_runtime;

namespace {

int attribute(CUdevice_attribute which, int device) {
  int value = 0;
  driver.cuDeviceGetAttribute(&value, which, device);
  return value;
}

CUresult fill_properties(cudaDeviceProp& p, int device) {
  std::memset(&p, 0, sizeof p);
  if (CUresult error = driver.cuDeviceGetName(p.name, sizeof p.name, device)) return error;
  driver.cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&p.uuid), device);
  driver.cuDeviceTotalMem(&p.totalGlobalMem, device);
  p.major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  p.minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  p.multiProcessorCount = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  p.warpSize = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE, device);
  p.maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
  p.maxThreadsPerMultiProcessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device);
  p.maxThreadsDim[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, device);
  p.maxThreadsDim[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, device);
  p.maxThreadsDim[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, device);
  p.maxGridSize[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, device);
  p.maxGridSize[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, device);
  p.maxGridSize[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, device);
  p.sharedMemPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device);
  p.sharedMemPerMultiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device);
  p.sharedMemPerBlockOptin = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
  p.regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, device);
  p.totalConstMem = attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, device);
  p.memPitch = attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH, device);
  p.textureAlignment = attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, device);
  p.texturePitchAlignment = attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, device);
  p.pciBusID = attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device);
  p.asyncEngineCount = attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, device);
  p.unifiedAddressing = attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device);
  p.managedMemory = attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, device);
  p.concurrentManagedAccess = attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device);
  p.canMapHostMemory = attribute(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, device);
  p.concurrentKernels = attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, device);
  p.streamPrioritiesSupported = attribute(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, device);
  p.hostRegisterSupported = attribute(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, device);
  p.memoryPoolsSupported = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device);
  return CUDA_SUCCESS;
}

cudaError_t entry_point(const char* symbol, void** function, unsigned version, unsigned long long flags,
                        cudaDriverEntryPointQueryResult* status) {
  return with_driver([&] {
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    CUresult result = driver.cuGetProcAddress(symbol, function, static_cast<int>(version), flags, &found);
    if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(found);  // same numbers
    return result;
  });
}

// Compiled for per-thread default streams, "default" flags mean the per-thread variants.
unsigned long long per_thread_flags(unsigned long long flags) {
  if (flags == cudaEnableDefault) return cudaEnablePerThreadDefaultStream;
  return flags;
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  if (count != nullptr) *count = 0;
  return with_driver([&] { return driver.cuDeviceGetCount(count); });
}

cudaError_t cudaGetDevice(int* device) {
  return with_driver([&] {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) { return record(select_device(device)); }

cudaError_t cudaInitDevice(int device, unsigned int, unsigned int) {
  int before = current_device();
  cudaError_t error = select_device(device);
  if (error == cudaSuccess && before != device) error = select_device(before);
  return record(error);
}

cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  return with_driver([&] { return driver.cuDevicePrimaryCtxSetFlags(current_device(), flags); });
}

cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  return with_driver([&] {
    int active;
    return flags == nullptr ? CUDA_ERROR_INVALID_VALUE
                            : driver.cuDevicePrimaryCtxGetState(current_device(), flags, &active);
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return with_driver([&] {
    return properties == nullptr ? CUDA_ERROR_INVALID_VALUE : fill_properties(*properties, device);
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  return with_driver(
      [&] { return driver.cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(which), device); });  // same numbers
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return with_driver([&] { return driver.cuDeviceGetPCIBusId(text, length, device); });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return with_driver([&] { return driver.cuDeviceGetByPCIBusId(device, text); });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return with_driver([&] { return driver.cuDeviceCanAccessPeer(can, device, peer); });
}

cudaError_t cudaDeviceSynchronize() {
  return with_context([] { return driver.cuCtxSynchronize(); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return with_context([&] { return driver.cuCtxGetStreamPriorityRange(least, greatest); });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return with_driver([&] { return driver.cuDriverGetVersion(version); });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return record(cudaErrorInvalidValue);
  *version = kRuntimeVersion;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return entry_point(symbol, function, kRuntimeVersion, flags, status);
}
cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function, unsigned long long flags,
                                         cudaDriverEntryPointQueryResult* status) {
  return entry_point(symbol, function, kRuntimeVersion, per_thread_flags(flags), status);
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int version,
                                             unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
  return entry_point(symbol, function, version, flags, status);
}
cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** function, unsigned int version,
                                                  unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
  return entry_point(symbol, function, version, per_thread_flags(flags), status);
}

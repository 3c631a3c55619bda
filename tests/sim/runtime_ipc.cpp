// How does the runtime share device memory between processes? By the driver's handles, which have the same layout.
#include "runtime_driver.h"

using namespace sim_runtime;

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle));

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  return with_context([&] {
    return driver.cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(handle), reinterpret_cast<CUdeviceptr>(address));
  });
}

cudaError_t cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t handle, unsigned int flags) {
  return with_context([&] {
    return driver.cuIpcOpenMemHandle(reinterpret_cast<CUdeviceptr*>(address), reinterpret_cast<const CUipcMemHandle&>(handle), flags);
  });
}

cudaError_t cudaIpcCloseMemHandle(void* address) {
  return with_context([&] { return driver.cuIpcCloseMemHandle(reinterpret_cast<CUdeviceptr>(address)); });
}

// How does the runtime import memory of other APIs? By the driver's descriptions, which have the same layout and numbers.
#include "runtime_driver.h"

using namespace sim_runtime;

static_assert(sizeof(cudaExternalMemoryHandleDesc) == sizeof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC));
static_assert(sizeof(cudaExternalMemoryBufferDesc) == sizeof(CUDA_EXTERNAL_MEMORY_BUFFER_DESC));
static_assert(int{cudaExternalMemoryHandleTypeOpaqueFd} == int{CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD});

namespace {

CUexternalMemory driver_memory(cudaExternalMemory_t memory) { return reinterpret_cast<CUexternalMemory>(memory); }

}  // namespace

cudaError_t cudaImportExternalMemory(cudaExternalMemory_t* memory, const cudaExternalMemoryHandleDesc* description) {
  return with_context([&] {
    return driver.cuImportExternalMemory(reinterpret_cast<CUexternalMemory*>(memory),
                                         reinterpret_cast<const CUDA_EXTERNAL_MEMORY_HANDLE_DESC*>(description));
  });
}

cudaError_t cudaExternalMemoryGetMappedBuffer(void** address, cudaExternalMemory_t memory,
                                              const cudaExternalMemoryBufferDesc* description) {
  return with_context([&] {
    return driver.cuExternalMemoryGetMappedBuffer(reinterpret_cast<CUdeviceptr*>(address), driver_memory(memory),
                                                  reinterpret_cast<const CUDA_EXTERNAL_MEMORY_BUFFER_DESC*>(description));
  });
}

cudaError_t cudaDestroyExternalMemory(cudaExternalMemory_t memory) {
  return with_context([&] { return driver.cuDestroyExternalMemory(driver_memory(memory)); });
}

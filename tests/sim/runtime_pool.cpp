// How do the runtime's memory pools map to the driver's? Their structs and enumerators have the same layout and numbers.
#include "runtime_driver.h"

using namespace sim_runtime;

static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
static_assert(sizeof(cudaMemLocation) == sizeof(CUmemLocation));
static_assert(sizeof(cudaMemPoolPtrExportData) == sizeof(CUmemPoolPtrExportData));
static_assert(int{cudaMemHandleTypePosixFileDescriptor} == int{CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR});
static_assert(int{cudaMemPoolAttrUsedMemHigh} == int{CU_MEMPOOL_ATTR_USED_MEM_HIGH});

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  return with_context([&] { return driver.cuMemPoolCreate(pool, reinterpret_cast<const CUmemPoolProps*>(properties)); });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return with_context([&] { return driver.cuMemPoolDestroy(pool); });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep_bytes) {
  return with_context([&] { return driver.cuMemPoolTrimTo(pool, keep_bytes); });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return with_context([&] { return driver.cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value); });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return with_context([&] { return driver.cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value); });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* descriptors, size_t count) {
  return with_context(
      [&] { return driver.cuMemPoolSetAccess(pool, reinterpret_cast<const CUmemAccessDesc*>(descriptors), count); });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation* location) {
  return with_context([&] {
    return driver.cuMemPoolGetAccess(reinterpret_cast<CUmemAccess_flags*>(flags), pool,
                                     reinterpret_cast<CUmemLocation*>(location));
  });
}

cudaError_t cudaMemPoolExportToShareableHandle(void* handle, cudaMemPool_t pool, cudaMemAllocationHandleType type, unsigned int flags) {
  return with_context(
      [&] { return driver.cuMemPoolExportToShareableHandle(handle, pool, static_cast<CUmemAllocationHandleType>(type), flags); });
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t* pool, void* handle, cudaMemAllocationHandleType type, unsigned int flags) {
  return with_context(
      [&] { return driver.cuMemPoolImportFromShareableHandle(pool, handle, static_cast<CUmemAllocationHandleType>(type), flags); });
}

cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData* data, void* address) {
  return with_context([&] {
    return driver.cuMemPoolExportPointer(reinterpret_cast<CUmemPoolPtrExportData*>(data), reinterpret_cast<CUdeviceptr>(address));
  });
}

cudaError_t cudaMemPoolImportPointer(void** address, cudaMemPool_t pool, cudaMemPoolPtrExportData* data) {
  return with_context([&] {
    return driver.cuMemPoolImportPointer(reinterpret_cast<CUdeviceptr*>(address), pool, reinterpret_cast<CUmemPoolPtrExportData*>(data));
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return with_context([&] { return driver.cuDeviceGetDefaultMemPool(pool, device); });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return with_context([&] { return driver.cuDeviceGetMemPool(pool, device); });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return with_context([&] { return driver.cuDeviceSetMemPool(device, pool); });
}

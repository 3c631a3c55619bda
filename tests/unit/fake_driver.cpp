// A libcuda.so.1 of a few functions, whose answers the hooks' tests decide.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

#include "interpose/driver_api.h"

extern "C" {
__attribute__((visibility("default"))) CUresult fake_result = CUDA_SUCCESS;  // of every allocation and free
__attribute__((visibility("default"))) CUstream fake_capturing = nullptr;    // the stream that is capturing
__attribute__((visibility("default"))) int fake_primary_active = 1;

#define FAKE(name, parameters, body) \
  CUresult name parameters { body }
#define ALLOCATES(value)                              \
  if (fake_result == CUDA_SUCCESS && address) *address = value; \
  errno = 77;                                         \
  return fake_result;
#define ANSWERS(target, value) \
  *target = value;             \
  errno = 99;                  \
  return CUDA_SUCCESS;

FAKE(cuInit, (unsigned), return CUDA_SUCCESS;)
FAKE(cuMemAlloc, (CUdeviceptr_v1 * address, unsigned), ALLOCATES(0x1000))
FAKE(cuMemAlloc_v2, (CUdeviceptr * address, size_t), ALLOCATES(0x2000))
FAKE(cuMemAllocPitch_v2, (CUdeviceptr * address, size_t* pitch, size_t, size_t, unsigned), *pitch = 512; ALLOCATES(0x3000))
FAKE(cuMemFree_v2, (CUdeviceptr), return fake_result;)
FAKE(cuMemAllocAsync, (CUdeviceptr * address, size_t, CUstream), ALLOCATES(0x4000))
FAKE(cuMemAllocAsync_ptsz, (CUdeviceptr * address, size_t, CUstream), ALLOCATES(0x5000))
FAKE(cuMemFreeAsync, (CUdeviceptr, CUstream), return fake_result;)
FAKE(cuMemFreeAsync_ptsz, (CUdeviceptr, CUstream), return fake_result;)
FAKE(cuMemHostAlloc, (void** address, size_t, unsigned), ALLOCATES((void*)0x6000))
FAKE(cuMemFreeHost, (void*), return fake_result;)
FAKE(cuMemHostRegister_v2, (void*, size_t, unsigned), return fake_result;)
FAKE(cuArray3DCreate_v2, (CUarray * address, const CUDA_ARRAY3D_DESCRIPTOR_v2*), ALLOCATES((CUarray)0x7000))
FAKE(cuArrayDestroy, (CUarray), return fake_result;)
FAKE(cuCtxDestroy_v2, (CUcontext), return fake_result;)
FAKE(cuCtxCreate_v4, (CUcontext * address, CUctxCreateParams*, unsigned, CUdevice), ALLOCATES((CUcontext)0xc1))
FAKE(cuDevicePrimaryCtxRetain, (CUcontext * address, CUdevice), ALLOCATES((CUcontext)0xc0))
FAKE(cuDevicePrimaryCtxReset_v2, (CUdevice), return fake_result;)
FAKE(cuGreenCtxCreate, (CUgreenCtx * address, CUdevResourceDesc, CUdevice, unsigned), ALLOCATES((CUgreenCtx)0xc2))
FAKE(cuGreenCtxDestroy, (CUgreenCtx), return fake_result;)
FAKE(cuMemPoolCreate, (CUmemoryPool * address, const CUmemPoolProps*), ALLOCATES((CUmemoryPool)0xb1))
FAKE(cuMemPoolDestroy, (CUmemoryPool), return fake_result;)
FAKE(cuMemPoolSetAttribute, (CUmemoryPool, CUmemPool_attribute, void*), return fake_result;)
FAKE(cuMemPoolImportFromShareableHandle, (CUmemoryPool * address, void*, CUmemAllocationHandleType, unsigned long long), ALLOCATES((CUmemoryPool)0xb2))
FAKE(cuMemAddressReserve, (CUdeviceptr * address, size_t, size_t, CUdeviceptr, unsigned long long), ALLOCATES(0xd0000))
FAKE(cuMemAddressFree, (CUdeviceptr, size_t), return fake_result;)
FAKE(cuMulticastCreate, (CUmemGenericAllocationHandle * address, const CUmulticastObjectProp*), ALLOCATES(0xa400))
FAKE(cuMulticastBindMem, (CUmemGenericAllocationHandle, size_t, CUmemGenericAllocationHandle, size_t, size_t, unsigned long long), return fake_result;)
FAKE(cuMulticastBindAddr, (CUmemGenericAllocationHandle, size_t, CUdeviceptr, size_t, unsigned long long), return fake_result;)
FAKE(cuMulticastUnbind, (CUmemGenericAllocationHandle, CUdevice, size_t, size_t), return fake_result;)
FAKE(cuMemMapArrayAsync, (CUarrayMapInfo*, unsigned, CUstream), return fake_result;)
FAKE(cuImportExternalMemory, (CUexternalMemory * address, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC*), ALLOCATES((CUexternalMemory)0xe0))
FAKE(cuDestroyExternalMemory, (CUexternalMemory), return fake_result;)
FAKE(cuExternalMemoryGetMappedBuffer, (CUdeviceptr * address, CUexternalMemory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC*), ALLOCATES(0xe1))
FAKE(cuGraphicsGLRegisterBuffer, (CUgraphicsResource * address, unsigned, unsigned), ALLOCATES((CUgraphicsResource)0xe2))
FAKE(cuGraphicsUnregisterResource, (CUgraphicsResource), return fake_result;)
FAKE(cuUserObjectCreate, (CUuserObject * address, void*, CUhostFn, unsigned, unsigned), ALLOCATES((CUuserObject)0xe3))
FAKE(cuUserObjectRelease, (CUuserObject, unsigned), return fake_result;)
FAKE(cuGraphRetainUserObject, (CUgraph, CUuserObject, unsigned, unsigned), return fake_result;)
FAKE(cuDevicePrimaryCtxRelease_v2, (CUdevice), return fake_result;)
FAKE(cuStreamCreate, (CUstream * address, unsigned), ALLOCATES((CUstream)0x8000))
FAKE(cuStreamDestroy_v2, (CUstream), return fake_result;)
FAKE(cuMemCreate, (CUmemGenericAllocationHandle * address, size_t, const CUmemAllocationProp*, unsigned long long), ALLOCATES(0xa000))
FAKE(cuMemImportFromShareableHandle, (CUmemGenericAllocationHandle * address, void*, CUmemAllocationHandleType), ALLOCATES(0xa100))
FAKE(cuMemRelease, (CUmemGenericAllocationHandle), return fake_result;)
FAKE(cuMemMap, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long), return fake_result;)
FAKE(cuMemUnmap, (CUdeviceptr, size_t), return fake_result;)
FAKE(cuIpcOpenMemHandle_v2, (CUdeviceptr * address, CUipcMemHandle, unsigned), ALLOCATES(0xa200))
FAKE(cuIpcCloseMemHandle, (CUdeviceptr), return fake_result;)
FAKE(cuTexRefCreate, (CUtexref*), return fake_result;)
FAKE(cuMemPoolImportPointer, (CUdeviceptr * address, CUmemoryPool, CUmemPoolPtrExportData*), ALLOCATES(0xa300))

FAKE(cuCtxGetCurrent, (CUcontext * context), ANSWERS(context, (CUcontext)0xc0))
FAKE(cuCtxGetDevice, (CUdevice * device), ANSWERS(device, 1))
FAKE(cuDeviceGetMemPool, (CUmemoryPool * pool, CUdevice), ANSWERS(pool, (CUmemoryPool)0xb0))
FAKE(cuMemGetAddressRange_v2, (CUdeviceptr*, size_t* address, CUdeviceptr), ANSWERS(address, 777))
FAKE(cuMemGetAllocationPropertiesFromHandle, (CUmemAllocationProp * properties, CUmemGenericAllocationHandle),
     properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
     properties->location.id = 3;
     return CUDA_SUCCESS;)
FAKE(cuPointerGetAttribute, (void* device, CUpointer_attribute, CUdeviceptr), ANSWERS((int*)device, 4))
FAKE(cuDeviceGetName, (char* name, int, CUdevice), strcpy(name, "Fake"); return CUDA_SUCCESS;)
FAKE(cuDeviceGetUuid_v2, (CUuuid*, CUdevice), return CUDA_ERROR_NOT_SUPPORTED;)
FAKE(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice), ANSWERS(bytes, 4096))
FAKE(cuDevicePrimaryCtxGetState, (CUdevice, unsigned*, int* active), ANSWERS(active, fake_primary_active))
FAKE(cuStreamGetCaptureInfo_v2,
     (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph* graph, const CUgraphNode**, size_t*),
     *graph = (CUgraph)0x9000;
     ANSWERS(status, stream && stream == fake_capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE))
FAKE(cuStreamGetCaptureInfo_v2_ptsz,
     (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode** nodes, size_t* count),
     return cuStreamGetCaptureInfo_v2(stream, status, id, graph, nodes, count);)

// As the driver does: the same name at another version or with another flag is another function.
static CUresult proc_address(const char* name, void** function, int version, cuuint64_t flags) {
  void* self = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  char variant[64];
  strcpy(variant, name);
  if (!strcmp(name, "cuMemAlloc") && version >= 3020) strcat(variant, "_v2");
  if (!strcmp(name, "cuMemAllocAsync") && flags & 2) strcat(variant, "_ptsz");
  if (!strcmp(name, "cuGetProcAddress") && version >= 12000) strcat(variant, "_v2");
  using Dlvsym = void*(void*, const char*, const char*);
  static auto* find = reinterpret_cast<void* (*)(void*, const char*)>(
      reinterpret_cast<Dlvsym*>(dlsym(RTLD_NEXT, "dlvsym"))(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
  if (function) *function = *name ? find(self, variant) : nullptr;
  return !*name || (function && *function) ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags) {
  return proc_address(name, function, version, flags);
}
CUresult cuGetProcAddress_v2(const char* name, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  const CUresult result = proc_address(name, function, version, flags);
  if (status) *status = result == CUDA_SUCCESS ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return result;
}
}

// The wrappers of memory that another API (Vulkan, Direct3D, OpenGL) made and CUDA is let into.
//
// It is not this process's allocation. What can leak is the access: the imported object, its mapped buffers, which outlive it and need
// a free of their own, the registered resource. Mapping a registered resource for a moment takes nothing and is not followed.
#include "interpose/array_size.h"
#include "interpose/driver_calls.h"

using namespace vramtrack;
using format::Kind;

extern "C" {

CUresult CUDAAPI cuImportExternalMemory(CUexternalMemory* memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* description) {
  const Call call("cuImportExternalMemory", VRAMTRACK_CALL_SITE);
  return made(Kind::kExternalMemory, VRAMTRACK_REAL(cuImportExternalMemory)(memory, description), memory);
}

CUresult CUDAAPI cuExternalMemoryGetMappedBuffer(CUdeviceptr* address, CUexternalMemory memory,
                                                 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* description) {
  const Call call("cuExternalMemoryGetMappedBuffer", VRAMTRACK_CALL_SITE);
  const PendingAllocation allocation(Kind::kShared, description ? description->size : 0);
  return allocation.finish(VRAMTRACK_REAL(cuExternalMemoryGetMappedBuffer)(address, memory, description), address);
}

CUresult CUDAAPI cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray* array, CUexternalMemory memory,
                                                         const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC* description) {
  const Call call("cuExternalMemoryGetMappedMipmappedArray", VRAMTRACK_CALL_SITE);
  const ArrayShape shape = description ? shape_of(&description->arrayDesc) : ArrayShape{};
  const PendingAllocation allocation(Kind::kShared, description ? mipmapped_array_bytes(shape, description->numLevels) : 0);
  return allocation.finish(VRAMTRACK_REAL(cuExternalMemoryGetMappedMipmappedArray)(array, memory, description), array);
}

CUresult CUDAAPI cuDestroyExternalMemory(CUexternalMemory memory) {
  return destroyed(Kind::kExternalMemory, memory, VRAMTRACK_REAL(cuDestroyExternalMemory));
}

CUresult CUDAAPI cuGraphicsGLRegisterBuffer(CUgraphicsResource* resource, unsigned buffer, unsigned flags) {
  const Call call("cuGraphicsGLRegisterBuffer", VRAMTRACK_CALL_SITE);
  return made(Kind::kGraphicsResource, VRAMTRACK_REAL(cuGraphicsGLRegisterBuffer)(resource, buffer, flags), resource);
}

CUresult CUDAAPI cuGraphicsGLRegisterImage(CUgraphicsResource* resource, unsigned image, unsigned target, unsigned flags) {
  const Call call("cuGraphicsGLRegisterImage", VRAMTRACK_CALL_SITE);
  return made(Kind::kGraphicsResource, VRAMTRACK_REAL(cuGraphicsGLRegisterImage)(resource, image, target, flags), resource);
}

CUresult CUDAAPI cuGraphicsEGLRegisterImage(CUgraphicsResource* resource, void* image, unsigned flags) {
  const Call call("cuGraphicsEGLRegisterImage", VRAMTRACK_CALL_SITE);
  return made(Kind::kGraphicsResource, VRAMTRACK_REAL(cuGraphicsEGLRegisterImage)(resource, image, flags), resource);
}

CUresult CUDAAPI cuGraphicsVDPAURegisterVideoSurface(CUgraphicsResource* resource, unsigned surface, unsigned flags) {
  const Call call("cuGraphicsVDPAURegisterVideoSurface", VRAMTRACK_CALL_SITE);
  return made(Kind::kGraphicsResource, VRAMTRACK_REAL(cuGraphicsVDPAURegisterVideoSurface)(resource, surface, flags), resource);
}

CUresult CUDAAPI cuGraphicsVDPAURegisterOutputSurface(CUgraphicsResource* resource, unsigned surface, unsigned flags) {
  const Call call("cuGraphicsVDPAURegisterOutputSurface", VRAMTRACK_CALL_SITE);
  return made(Kind::kGraphicsResource, VRAMTRACK_REAL(cuGraphicsVDPAURegisterOutputSurface)(resource, surface, flags), resource);
}

CUresult CUDAAPI cuGraphicsUnregisterResource(CUgraphicsResource resource) {
  return destroyed(Kind::kGraphicsResource, resource, VRAMTRACK_REAL(cuGraphicsUnregisterResource));
}

// Their own names, whatever another preloaded library does with the exported ones; see driver_hooks.cpp.
#define EXTERNAL_HOOK(name) \
  __attribute__((visibility("hidden"), alias(#name), copy(name))) decltype(name) vramtrack_##name;
#include "interpose/hooks.def"

}  // extern "C"

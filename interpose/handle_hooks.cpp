// The wrappers of what takes device memory without an allocation call: streams, events, modules, textures. Those of graphs
// are in graph_hooks.cpp.
//
// Every one lends its name and tells of the handle it made or destroys; see driver_hooks.cpp for what all wrappers have in common.
#include "interpose/driver_calls.h"

using namespace vramtrack;
using format::Kind;

extern "C" {

// --- streams and events ----------------------------------------------------------------------------------------------------

CUresult CUDAAPI cuStreamCreate(CUstream* stream, unsigned flags) {
  const Call call("cuStreamCreate", VRAMTRACK_CALL_SITE);
  return made(Kind::kStream, VRAMTRACK_REAL(cuStreamCreate)(stream, flags), stream);
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  const Call call("cuStreamCreateWithPriority", VRAMTRACK_CALL_SITE);
  return made(Kind::kStream, VRAMTRACK_REAL(cuStreamCreateWithPriority)(stream, flags, priority), stream);
}

CUresult CUDAAPI cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned flags, int priority) {
  const Call call("cuGreenCtxStreamCreate", VRAMTRACK_CALL_SITE);
  return made(Kind::kStream, VRAMTRACK_REAL(cuGreenCtxStreamCreate)(stream, context, flags, priority), stream);
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
  return destroyed(Kind::kStream, stream, VRAMTRACK_REAL(cuStreamDestroy));
}

CUresult CUDAAPI cuStreamDestroy_v2(CUstream stream) {
  return destroyed(Kind::kStream, stream, VRAMTRACK_REAL(cuStreamDestroy_v2));
}

CUresult CUDAAPI cuEventCreate(CUevent* event, unsigned flags) {
  const Call call("cuEventCreate", VRAMTRACK_CALL_SITE);
  return made(Kind::kEvent, VRAMTRACK_REAL(cuEventCreate)(event, flags), event);
}

CUresult CUDAAPI cuEventDestroy(CUevent event) { return destroyed(Kind::kEvent, event, VRAMTRACK_REAL(cuEventDestroy)); }

CUresult CUDAAPI cuEventDestroy_v2(CUevent event) {
  return destroyed(Kind::kEvent, event, VRAMTRACK_REAL(cuEventDestroy_v2));
}

// --- code ------------------------------------------------------------------------------------------------------------------

CUresult CUDAAPI cuModuleLoad(CUmodule* module, const char* path) {
  const Call call("cuModuleLoad", VRAMTRACK_CALL_SITE);
  return made(Kind::kModule, VRAMTRACK_REAL(cuModuleLoad)(module, path), module);
}

CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image) {
  const Call call("cuModuleLoadData", VRAMTRACK_CALL_SITE);
  return made(Kind::kModule, VRAMTRACK_REAL(cuModuleLoadData)(module, image), module);
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, CUjit_option* options, void** values) {
  const Call call("cuModuleLoadDataEx", VRAMTRACK_CALL_SITE);
  return made(Kind::kModule, VRAMTRACK_REAL(cuModuleLoadDataEx)(module, image, count, options, values), module);
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule* module, const void* binary) {
  const Call call("cuModuleLoadFatBinary", VRAMTRACK_CALL_SITE);
  return made(Kind::kModule, VRAMTRACK_REAL(cuModuleLoadFatBinary)(module, binary), module);
}

CUresult CUDAAPI cuModuleUnload(CUmodule module) { return destroyed(Kind::kModule, module, VRAMTRACK_REAL(cuModuleUnload)); }

CUresult CUDAAPI cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jit, void** jit_values, unsigned jit_count,
                                   CUlibraryOption* options, void** values, unsigned count) {
  const Call call("cuLibraryLoadData", VRAMTRACK_CALL_SITE);
  const auto real = VRAMTRACK_REAL(cuLibraryLoadData);
  return made(Kind::kLibrary, real(library, code, jit, jit_values, jit_count, options, values, count), library);
}

CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* jit, void** jit_values,
                                       unsigned jit_count, CUlibraryOption* options, void** values, unsigned count) {
  const Call call("cuLibraryLoadFromFile", VRAMTRACK_CALL_SITE);
  const auto real = VRAMTRACK_REAL(cuLibraryLoadFromFile);
  return made(Kind::kLibrary, real(library, path, jit, jit_values, jit_count, options, values, count), library);
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary library) {
  return destroyed(Kind::kLibrary, library, VRAMTRACK_REAL(cuLibraryUnload));
}

// --- textures and surfaces -------------------------------------------------------------------------------------------------

CUresult CUDAAPI cuTexObjectCreate(CUtexObject* texture, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* description,
                                   const CUDA_RESOURCE_VIEW_DESC* view) {
  const Call call("cuTexObjectCreate", VRAMTRACK_CALL_SITE);
  return made(Kind::kTexture, VRAMTRACK_REAL(cuTexObjectCreate)(texture, resource, description, view), texture);
}

CUresult CUDAAPI cuTexObjectDestroy(CUtexObject texture) {
  return destroyed(Kind::kTexture, texture, VRAMTRACK_REAL(cuTexObjectDestroy));
}

CUresult CUDAAPI cuSurfObjectCreate(CUsurfObject* surface, const CUDA_RESOURCE_DESC* resource) {
  const Call call("cuSurfObjectCreate", VRAMTRACK_CALL_SITE);
  return made(Kind::kSurface, VRAMTRACK_REAL(cuSurfObjectCreate)(surface, resource), surface);
}

CUresult CUDAAPI cuSurfObjectDestroy(CUsurfObject surface) {
  return destroyed(Kind::kSurface, surface, VRAMTRACK_REAL(cuSurfObjectDestroy));
}

// --- user objects ----------------------------------------------------------------------------------------------------------

// The program's references count; those that a graph was given (moved or its own) are the graph's business.
CUresult CUDAAPI cuUserObjectCreate(CUuserObject* object, void* data, CUhostFn destroy, unsigned references, unsigned flags) {
  const Call call("cuUserObjectCreate", VRAMTRACK_CALL_SITE);
  const CUresult result = VRAMTRACK_REAL(cuUserObjectCreate)(object, data, destroy, references, flags);
  if (result == CUDA_SUCCESS && object) tell_user_object(*object, references);
  return result;
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned count) {
  const CUresult result = VRAMTRACK_REAL(cuUserObjectRetain)(object, count);
  if (result == CUDA_SUCCESS) user_object_retained((uint64_t)object, count);
  return result;
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned count) {
  const CUresult result = VRAMTRACK_REAL(cuUserObjectRelease)(object, count);
  if (result == CUDA_SUCCESS) user_object_released((uint64_t)object, count);
  return result;
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
  const CUresult result = VRAMTRACK_REAL(cuGraphRetainUserObject)(graph, object, count, flags);
  if (result == CUDA_SUCCESS && flags & CU_GRAPH_USER_OBJECT_MOVE) user_object_released((uint64_t)object, count);
  return result;
}

// Their own names, whatever another preloaded library does with the exported ones; see driver_hooks.cpp.
#define HANDLE_HOOK(name) \
  __attribute__((visibility("hidden"), alias(#name), copy(name))) decltype(name) vramtrack_##name;
#include "interpose/hooks.def"

}  // extern "C"

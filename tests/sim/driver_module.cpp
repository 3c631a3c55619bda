// What becomes of modules, libraries and launches? They are accepted and do nothing; host functions do run.
#include "capture.h"

namespace sim {
namespace {

CUresult load(const char* name, CUmodule* out, const void* image) {
  return context_call(name, [&](CUctx_st& context) {
    if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto module = std::make_unique<CUmod_st>();
    module->context = &context;
    *out = machine().modules.add(std::move(module));
    return CUDA_SUCCESS;
  });
}

// Every name a program asks for exists: the simulator does not read images.
CUfunction function_of(CUmod_st& module, const char* name) {
  std::unique_ptr<CUfunc_st>& function = module.functions[name];
  if (!function) function = std::make_unique<CUfunc_st>(CUfunc_st{&module, name});
  return function.get();
}

CUresult launch(const char* name, CUfunction function, unsigned blocks, unsigned threads, CUstream stream) {
  if (CUresult unusable = driver_usable()) return unusable;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (blocks == 0 || threads == 0) return CUDA_ERROR_INVALID_VALUE;
  return stream_call(name, stream, CU_GRAPH_NODE_TYPE_KERNEL, [] { return CUDA_SUCCESS; });
}

}  // namespace
}  // namespace sim

using namespace sim;

CUresult cuModuleLoad(CUmodule* module, const char* file) { return load(__func__, module, file); }
CUresult cuModuleLoadData(CUmodule* module, const void* image) { return load(__func__, module, image); }
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int, CUjit_option*, void**) {
  return load(__func__, module, image);
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) { return load(__func__, module, image); }

CUresult cuModuleUnload(CUmodule module) {
  return driver_call(__func__, [&] { return machine().modules.remove(module) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return driver_call(__func__, [&] {
    if (!machine().modules.contains(module)) return CUDA_ERROR_INVALID_HANDLE;
    if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *function = function_of(*module, name);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr*, size_t*, CUmodule module, const char*) {
  return driver_call(__func__, [&] {
    return machine().modules.contains(module) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
  });
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned int, CUlibraryOption*,
                           void**, unsigned int) {
  return driver_call(__func__, [&] {
    if (library == nullptr || code == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto fresh = std::make_unique<CUlib_st>();
    fresh->module = std::make_unique<CUmod_st>();
    *library = machine().libraries.add(std::move(fresh));
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryUnload(CUlibrary library) {
  return driver_call(__func__,
                     [&] { return machine().libraries.remove(library) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; });
}

CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  return driver_call(__func__, [&] {
    if (!machine().libraries.contains(library)) return CUDA_ERROR_INVALID_HANDLE;
    if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *module = library->module.get();
    return CUDA_SUCCESS;
  });
}

// A CUkernel may be used as a CUfunction by documentation; here it is one.
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return driver_call(__func__, [&] {
    if (!machine().libraries.contains(library)) return CUDA_ERROR_INVALID_HANDLE;
    if (kernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *kernel = reinterpret_cast<CUkernel>(function_of(*library->module, name));
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return driver_call(__func__, [&] {
    if (function == nullptr || kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *function = reinterpret_cast<CUfunction>(kernel);
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int, CUstream stream,
                        void**, void**) {
  return launch(__func__, function, grid_x * grid_y * grid_z, block_x * block_y * block_z, stream);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction function, void**, void**) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return launch(__func__, function, c->gridDimX * c->gridDimY * c->gridDimZ, c->blockDimX * c->blockDimY * c->blockDimZ,
                c->hStream);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                   unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int,
                                   CUstream stream, void**) {
  return launch(__func__, function, grid_x * grid_y * grid_z, block_x * block_y * block_z, stream);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return stream_call(__func__, stream, CU_GRAPH_NODE_TYPE_HOST, [=] {
    function(argument);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* argument, unsigned int flags) {
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return stream_call(__func__, stream, CU_GRAPH_NODE_TYPE_HOST, [=] {
    callback(stream, CUDA_SUCCESS, argument);
    return CUDA_SUCCESS;
  });
}

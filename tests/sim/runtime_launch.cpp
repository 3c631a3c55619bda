// What happens to kernels? A launch reaches the driver as cuLaunchKernel of a function that does nothing. The registration
// functions that nvcc's objects call (declared in crt/) are accepted and ignored, so that such objects link and load.
#include "runtime_driver.h"

using namespace sim_runtime;

namespace {

struct LaunchConfiguration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};
thread_local LaunchConfiguration pending;  // between the two halves of kernel<<<...>>>()

// The stand-in for every kernel, of the current context.
CUresult any_function(CUfunction& function) {
  CUmodule module;
  if (CUresult error = driver.cuModuleLoadData(&module, "vramtrack sim")) return error;
  return driver.cuModuleGetFunction(&function, module, "kernel");
}

cudaError_t launch(const StreamCalls& calls, const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
                   cudaStream_t stream, void** arguments) {
  if (kernel == nullptr) return record(cudaErrorInvalidDeviceFunction);
  return with_context([&] {
    static thread_local CUcontext function_context;
    static thread_local CUfunction function;
    CUcontext context;
    if (CUresult error = driver.cuCtxGetCurrent(&context)) return error;
    if (context != function_context) {
      if (CUresult error = any_function(function)) return error;
      function_context = context;
    }
    return calls.cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                static_cast<unsigned>(shared_bytes), stream, arguments, nullptr);
  });
}

}  // namespace

STREAM_API(cudaLaunchKernel, _ptsz,
           (const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes, cudaStream_t stream),
           { return launch(calls, kernel, grid, block, shared_bytes, stream, arguments); })

STREAM_API(cudaLaunchCooperativeKernel, _ptsz,
           (const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes, cudaStream_t stream),
           { return launch(calls, kernel, grid, block, shared_bytes, stream, arguments); })

STREAM_API(cudaLaunchKernelExC, _ptsz, (const cudaLaunchConfig_t* c, const void* kernel, void** arguments), {
  if (c == nullptr) return record(cudaErrorInvalidValue);
  return launch(calls, kernel, c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream, arguments);
})

#pragma GCC visibility push(default)
extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, size_t, int, int) {}
char __cudaInitModule(void**) { return 0; }

// A kernel's handle is the address it was asked by.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host_function));
  return cudaSuccess;
}

STREAM_API(__cudaLaunchKernel, _ptsz,
           (cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes, cudaStream_t stream),
           { return launch(calls, kernel, grid, block, shared_bytes, stream, arguments); })

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream) {
  pending = {grid, block, shared_bytes, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  *grid = pending.grid;
  *block = pending.block;
  *shared_bytes = pending.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = pending.stream;
  return cudaSuccess;
}

}  // extern "C"
#pragma GCC visibility pop

// How does the simulated runtime reach a driver, and what does every runtime function do around its call?
//
// As NVIDIA's: at first use it opens libcuda.so.1, finds cuGetProcAddress_v2 by dlsym and everything else through it. It works
// on the simulated driver and on a real one. It needs no C++ library, so that C programs can link libcudart_static.a.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL  // the true names: no renaming of cudaMallocAsync to cudaMallocAsync_ptsz
#endif
#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
#pragma GCC visibility pop
#include <cudaTypedefs.h>

namespace sim_runtime {

constexpr int kRuntimeVersion = 13000;

struct DriverCalls {
#define NEED(name, version) PFN_##name##_v##version name;
#define NEED_STREAM(name, version, per_thread_version)
#include "runtime_needs.inc"
#undef NEED
#undef NEED_STREAM
};

// The functions that know a default stream: one set per meaning of the null stream.
struct StreamCalls {
#define NEED(name, version)
#define NEED_STREAM(name, version, per_thread_version) PFN_##name##_v##version name;
#include "runtime_needs.inc"
#undef NEED
#undef NEED_STREAM
};

// Valid once ensure_driver succeeded.
extern DriverCalls driver;
extern StreamCalls legacy;
extern StreamCalls per_thread;

cudaError_t ensure_driver();
// The same, and the calling thread has a context: its own or the primary one of its device.
cudaError_t ensure_context();

int current_device();
cudaError_t select_device(int device);
cudaError_t reset_device();

// Notes an error for cudaGetLastError and returns it. An error that broke the context sticks: every later call returns it.
cudaError_t record(cudaError_t error);
cudaError_t sticky_error();

inline cudaError_t record(CUresult result) {
  return record(static_cast<cudaError_t>(result));  // same numbers, checked in runtime_error.cpp
}

// What a runtime function does: `body` returns the driver's result, or the runtime's own error.
template <class Body>
cudaError_t with_driver(Body body) {
  if (cudaError_t error = ensure_driver()) return record(error);
  return record(body());
}

template <class Body>
cudaError_t with_context(Body body) {
  if (cudaError_t error = sticky_error()) return error;
  if (cudaError_t error = ensure_context()) return record(error);
  return record(body());
}

}  // namespace sim_runtime

// Defines a function and its variant for the per-thread default stream; the body finds the right driver functions in `calls`.
#define STREAM_API(name, suffix, PARAMETERS, ...)              \
  cudaError_t name PARAMETERS {                                \
    const sim_runtime::StreamCalls& calls = sim_runtime::legacy; \
    __VA_ARGS__                                                \
  }                                                            \
  cudaError_t name##suffix PARAMETERS {                        \
    const sim_runtime::StreamCalls& calls = sim_runtime::per_thread; \
    __VA_ARGS__                                                \
  }

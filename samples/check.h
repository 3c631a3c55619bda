// CHECK(call): a failed CUDA call ends the program with its name.
#pragma once
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                  \
  do {                                                                               \
    if (cudaError_t error_ = (call); error_ != cudaSuccess) {                        \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));           \
      std::exit(1);                                                                  \
    }                                                                                \
  } while (0)

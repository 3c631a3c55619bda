// What do the simulator's tests share? They see the runtime, linked; the driver's own behaviour is asked through libcuda.so.1
// as hooks and frameworks reach it.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

constexpr size_t kMiB = 1 << 20;

inline void* driver_library() {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return library;
}

template <class Function>
Function driver_symbol(const char* name) {
  return reinterpret_cast<Function>(dlsym(driver_library(), name));
}

struct Lookup {
  CUresult result;
  void* address;
  CUdriverProcAddressQueryResult status;
};

inline Lookup look_up(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
  Lookup found{CUDA_SUCCESS, nullptr, CU_GET_PROC_ADDRESS_SUCCESS};
  found.result = driver_symbol<PFN_cuGetProcAddress_v12000>("cuGetProcAddress_v2")(name, &found.address, version, flags,
                                                                                 &found.status);
  return found;
}

// The driver as this test calls it: current contexts are shared with the runtime.
#define DRIVER(name, version) reinterpret_cast<PFN_##name##_v##version>(look_up(#name, version).address)

inline size_t used_bytes() {
  size_t free_bytes = 0, total_bytes = 0;
  EXPECT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  return total_bytes - free_bytes;
}

inline cuuint64_t pool_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  cuuint64_t value = 0;
  EXPECT_EQ(cudaMemPoolGetAttribute(pool, attribute, &value), cudaSuccess);
  return value;
}

inline cudaMemPool_t default_pool() {
  cudaMemPool_t pool = nullptr;
  EXPECT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
  return pool;
}

// Each test starts with a fresh primary context. `baseline_` is what the device uses then.
class Sim : public testing::Test {
 protected:
  void SetUp() override {
    cudaDeviceReset();
    cudaGetLastError();
    ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
    baseline_ = used_bytes();
  }
  size_t baseline_ = 0;
};

// Do green contexts share their memory with the device's primary context, and hold it?
#include "sim_test.h"

namespace {

struct GreenContext : Sim {
  CUgreenCtx create() {
    CUdevResource resource{};
    EXPECT_EQ(DRIVER(cuDeviceGetDevResource, 12040)(0, &resource, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
    CUdevResourceDesc descriptor = nullptr;
    EXPECT_EQ(DRIVER(cuDevResourceGenerateDesc, 12040)(&descriptor, &resource, 1), CUDA_SUCCESS);
    CUgreenCtx green = nullptr;
    EXPECT_EQ(DRIVER(cuGreenCtxCreate, 12040)(&green, descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_SUCCESS);
    return green;
  }
  CUcontext context_of(CUgreenCtx green) {
    CUcontext context = nullptr;
    EXPECT_EQ(DRIVER(cuCtxFromGreenCtx, 12040)(&context, green), CUDA_SUCCESS);
    return context;
  }
  CUcontext current() {
    CUcontext context = nullptr;
    EXPECT_EQ(DRIVER(cuCtxGetCurrent, 4000)(&context), CUDA_SUCCESS);
    return context;
  }
  CUresult destroy(CUgreenCtx green) { return DRIVER(cuGreenCtxDestroy, 12040)(green); }
};

TEST_F(GreenContext, memory_is_the_primary_contexts) {
  CUgreenCtx green = create();
  CUcontext primary = current(), popped = nullptr, owner = nullptr;
  EXPECT_NE(context_of(green), primary);
  ASSERT_EQ(DRIVER(cuCtxPushCurrent, 4000)(context_of(green)), CUDA_SUCCESS);
  EXPECT_EQ(current(), context_of(green));
  CUdeviceptr address = 0;
  ASSERT_EQ(DRIVER(cuMemAlloc, 3020)(&address, kMiB), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuPointerGetAttribute, 4000)(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address), CUDA_SUCCESS);
  EXPECT_EQ(owner, primary);
  CUdevice device = -1;
  EXPECT_EQ(DRIVER(cuCtxGetDevice, 2000)(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  ASSERT_EQ(DRIVER(cuCtxPopCurrent, 4000)(&popped), CUDA_SUCCESS);
  EXPECT_EQ(destroy(green), CUDA_SUCCESS);
  EXPECT_EQ(used_bytes(), baseline_ + kMiB);
  EXPECT_EQ(DRIVER(cuMemFree, 3020)(address), CUDA_SUCCESS);
}

TEST_F(GreenContext, streams_are_its_own) {
  CUgreenCtx green = create();
  CUstream stream = nullptr;
  EXPECT_EQ(DRIVER(cuGreenCtxStreamCreate, 12050)(&stream, green, CU_STREAM_DEFAULT, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(DRIVER(cuGreenCtxStreamCreate, 12050)(&stream, green, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  CUcontext context = nullptr;
  EXPECT_EQ(DRIVER(cuStreamGetCtx, 9020)(stream, &context), CUDA_SUCCESS);
  EXPECT_EQ(context, context_of(green));
  void* block = nullptr;
  ASSERT_EQ(cudaMallocAsync(&block, kMiB, stream), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(block, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(used_bytes(), baseline_);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(destroy(green), CUDA_SUCCESS);
}

TEST_F(GreenContext, holds_the_primary_context_until_it_is_destroyed) {
  CUgreenCtx green = create();
  CUcontext context = context_of(green);
  unsigned flags = 0;
  int active = 0;
  EXPECT_EQ(DRIVER(cuDevicePrimaryCtxRelease, 11000)(0), CUDA_SUCCESS);  // the runtime's reference
  EXPECT_EQ(DRIVER(cuDevicePrimaryCtxGetState, 7000)(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
  EXPECT_EQ(DRIVER(cuCtxDestroy, 4000)(context), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(destroy(green), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuDevicePrimaryCtxGetState, 7000)(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  EXPECT_EQ(destroy(green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(DRIVER(cuCtxSetCurrent, 4000)(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(destroy(nullptr), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(GreenContext, ends_when_the_primary_context_is_reset) {
  CUgreenCtx green = create();
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(destroy(green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(used_bytes(), baseline_);
}

TEST_F(GreenContext, resources_are_checked) {
  CUdevResource resources[2] = {};
  EXPECT_EQ(DRIVER(cuDeviceGetDevResource, 12040)(0, &resources[0], CU_DEV_RESOURCE_TYPE_INVALID), CUDA_ERROR_INVALID_RESOURCE_TYPE);
  EXPECT_EQ(DRIVER(cuDeviceGetDevResource, 12040)(64, &resources[0], CU_DEV_RESOURCE_TYPE_SM), CUDA_ERROR_INVALID_DEVICE);
  CUdevResourceDesc descriptor = nullptr;
  EXPECT_EQ(DRIVER(cuDevResourceGenerateDesc, 12040)(&descriptor, resources, 1), CUDA_ERROR_INVALID_RESOURCE_TYPE);
  for (CUdevResource& resource : resources)
    ASSERT_EQ(DRIVER(cuDeviceGetDevResource, 12040)(0, &resource, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
  EXPECT_EQ(resources[0].sm.smCount % resources[0].sm.smCoscheduledAlignment, 0u);
  EXPECT_EQ(DRIVER(cuDevResourceGenerateDesc, 12040)(&descriptor, resources, 2), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  ASSERT_EQ(DRIVER(cuDevResourceGenerateDesc, 12040)(&descriptor, resources, 1), CUDA_SUCCESS);
  CUgreenCtx green = nullptr;
  EXPECT_EQ(DRIVER(cuGreenCtxCreate, 12040)(&green, descriptor, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuGreenCtxCreate, 12040)(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace

// Which memory goes back when: pools at synchronisations, contexts at their end? And which error is seen afterwards?
#include <thread>

#include "sim_test.h"

namespace {

using PoolTest = Sim;

TEST_F(PoolTest, unused_memory_goes_back_at_a_synchronisation) {
  void* p = nullptr;
  ASSERT_EQ(cudaMallocAsync(&p, kMiB, nullptr), cudaSuccess);
  EXPECT_EQ(pool_attribute(default_pool(), cudaMemPoolAttrUsedMemCurrent), kMiB);
  size_t reserved = pool_attribute(default_pool(), cudaMemPoolAttrReservedMemCurrent);
  EXPECT_GT(reserved, kMiB);
  EXPECT_EQ(used_bytes(), baseline_ + reserved);
  ASSERT_EQ(cudaFreeAsync(p, nullptr), cudaSuccess);
  EXPECT_EQ(pool_attribute(default_pool(), cudaMemPoolAttrUsedMemCurrent), 0u);
  EXPECT_EQ(used_bytes(), baseline_ + reserved);  // cached
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(used_bytes(), baseline_);
}

TEST_F(PoolTest, release_threshold_keeps_memory_cached) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, {0}};
  cudaMemPool_t pool = nullptr;
  ASSERT_EQ(cudaMemPoolCreate(&pool, &properties), cudaSuccess);
  cuuint64_t forever = ~0ull;
  ASSERT_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &forever), cudaSuccess);
  void* p = nullptr;
  ASSERT_EQ(cudaMallocFromPoolAsync(&p, kMiB, pool, nullptr), cudaSuccess);
  ASSERT_EQ(cudaFreeAsync(p, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_GT(used_bytes(), baseline_);
  ASSERT_EQ(cudaMemPoolTrimTo(pool, 0), cudaSuccess);
  EXPECT_EQ(used_bytes(), baseline_);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemPoolDestroy(default_pool()), cudaErrorInvalidValue);
}

TEST_F(PoolTest, destroying_a_pool_waits_for_its_allocations) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, {0}};
  cudaMemPool_t pool = nullptr;
  void* p = nullptr;
  ASSERT_EQ(cudaMemPoolCreate(&pool, &properties), cudaSuccess);
  ASSERT_EQ(cudaMallocFromPoolAsync(&p, kMiB, pool, nullptr), cudaSuccess);
  ASSERT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
  EXPECT_EQ(cudaMemset(p, 1, kMiB), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(p, nullptr), cudaSuccess);
  EXPECT_GT(used_bytes(), baseline_);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(used_bytes(), baseline_);
}

TEST_F(PoolTest, either_free_takes_either_pointer) {
  void *linear = nullptr, *pooled = nullptr;
  ASSERT_EQ(cudaMalloc(&linear, kMiB), cudaSuccess);
  ASSERT_EQ(cudaMallocAsync(&pooled, kMiB, nullptr), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(linear, nullptr), cudaSuccess);
  EXPECT_EQ(cudaFree(pooled), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(pooled, nullptr), cudaErrorInvalidValue);
}

TEST_F(PoolTest, cached_memory_is_not_given_up_for_cudaMalloc) {
  size_t free_bytes, total_bytes;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  void* p = nullptr;
  ASSERT_EQ(cudaMallocAsync(&p, free_bytes / 2, nullptr), cudaSuccess);
  ASSERT_EQ(cudaFreeAsync(p, nullptr), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&p, free_bytes / 4 * 3), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&p, free_bytes / 4 * 3), cudaSuccess);
  EXPECT_EQ(cudaFree(p), cudaSuccess);
}

using ContextTest = Sim;

TEST_F(ContextTest, reset_frees_the_context_but_not_the_pool) {
  void *linear = nullptr, *pooled = nullptr;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaMalloc(&linear, kMiB), cudaSuccess);
  ASSERT_EQ(cudaMallocAsync(&pooled, kMiB, nullptr), cudaSuccess);
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cudaFree(linear), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(pool_attribute(default_pool(), cudaMemPoolAttrUsedMemCurrent), kMiB);
  EXPECT_EQ(cudaFree(pooled), cudaSuccess);
}

TEST_F(ContextTest, destroy_frees_its_memory_and_makes_it_unusable) {
  CUcontext context = nullptr, current = nullptr, before = nullptr;
  CUdeviceptr p = 0;
  ASSERT_EQ(DRIVER(cuCtxGetCurrent, 4000)(&before), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuCtxCreate, 3020)(&context, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuMemAlloc, 3020)(&p, kMiB), CUDA_SUCCESS);
  EXPECT_EQ(used_bytes(), baseline_ + kMiB);  // the runtime works in the context that is current
  ASSERT_EQ(DRIVER(cuCtxDestroy, 4000)(context), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuCtxGetCurrent, 4000)(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, before);
  EXPECT_EQ(DRIVER(cuCtxSetCurrent, 4000)(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(used_bytes(), baseline_);
}

TEST_F(ContextTest, the_oldest_way_to_make_one_still_works) {
  CUcontext context = nullptr;
  auto create = driver_symbol<CUresult (*)(CUcontext*, unsigned, CUdevice)>("cuCtxCreate");
  EXPECT_EQ(look_up("cuCtxCreate", 2000).address, reinterpret_cast<void*>(create));
  ASSERT_EQ(create(&context, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuCtxDestroy, 4000)(context), CUDA_SUCCESS);
}

TEST_F(ContextTest, driver_needs_a_context_and_threads_have_their_own) {
  std::thread([] {
    CUdeviceptr p = 0;
    EXPECT_EQ(DRIVER(cuMemAlloc, 3020)(&p, 64), CUDA_ERROR_INVALID_CONTEXT);
    void* q = nullptr;
    EXPECT_EQ(cudaMalloc(&q, 64), cudaSuccess);  // the runtime takes the primary one
    EXPECT_EQ(DRIVER(cuMemAlloc, 3020)(&p, 64), CUDA_SUCCESS);
  }).join();
}

using ErrorTest = Sim;

TEST_F(ErrorTest, last_error_stays_until_read) {
  EXPECT_EQ(cudaFree(reinterpret_cast<void*>(0x1230)), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  const char* name = nullptr;
  EXPECT_EQ(DRIVER(cuGetErrorName, 6000)(CUDA_ERROR_OUT_OF_MEMORY, &name), CUDA_SUCCESS);
  EXPECT_STREQ(name, "CUDA_ERROR_OUT_OF_MEMORY");
}

}  // namespace

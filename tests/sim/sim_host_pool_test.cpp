// Is the memory of a host pool the host's: counted by its pool and by no device?
#include "sim_test.h"

namespace {

struct HostPool : Sim {
  cudaError_t create(cudaMemLocationType location, cudaMemAllocationHandleType types = cudaMemHandleTypeNone) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.handleTypes = types;
    properties.location = {location, {7}};  // of no meaning for the host
    return cudaMemPoolCreate(&pool_, &properties);
  }
  cudaMemPool_t pool_ = nullptr;
};

TEST_F(HostPool, memory_is_the_hosts) {
  ASSERT_EQ(create(cudaMemLocationTypeHost), cudaSuccess);
  void* block = nullptr;
  ASSERT_EQ(cudaMallocFromPoolAsync(&block, kMiB, pool_, nullptr), cudaSuccess);
  EXPECT_EQ(used_bytes(), baseline_);
  EXPECT_EQ(pool_attribute(pool_, cudaMemPoolAttrUsedMemCurrent), kMiB);
  EXPECT_EQ(cudaMemset(block, 5, kMiB), cudaSuccess);
  EXPECT_EQ(static_cast<char*>(block)[kMiB - 1], 5);
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, block), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes.device, 0);
  EXPECT_EQ(cudaFreeHost(block), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeAsync(block, nullptr), cudaSuccess);
  EXPECT_GT(pool_attribute(pool_, cudaMemPoolAttrReservedMemCurrent), 0u);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(pool_attribute(pool_, cudaMemPoolAttrReservedMemCurrent), 0u);
  EXPECT_EQ(used_bytes(), baseline_);
  EXPECT_EQ(cudaMemPoolDestroy(pool_), cudaSuccess);
}

TEST_F(HostPool, more_than_a_device_has_fits_and_what_the_host_lacks_does_not) {
  ASSERT_EQ(create(cudaMemLocationTypeHost), cudaSuccess);
  size_t free_bytes = 0, total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  void* block = nullptr;
  EXPECT_EQ(cudaMallocFromPoolAsync(&block, 2 * total_bytes, pool_, nullptr), cudaSuccess);
  EXPECT_EQ(cudaFree(block), cudaSuccess);
  EXPECT_EQ(cudaMallocFromPoolAsync(&block, ~size_t{0}, pool_, nullptr), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMemPoolDestroy(pool_), cudaSuccess);
}

TEST_F(HostPool, cannot_be_a_devices_pool_nor_shared) {
  EXPECT_EQ(create(cudaMemLocationTypeHost, cudaMemHandleTypePosixFileDescriptor), cudaErrorInvalidValue);
  EXPECT_EQ(create(cudaMemLocationTypeHostNumaCurrent), cudaErrorInvalidValue);
  EXPECT_EQ(create(cudaMemLocationTypeHostNuma), cudaErrorNotSupported);
  ASSERT_EQ(create(cudaMemLocationTypeHost), cudaSuccess);
  EXPECT_EQ(cudaDeviceSetMemPool(0, pool_), cudaErrorInvalidValue);
  int file = -1;
  EXPECT_EQ(cudaMemPoolExportToShareableHandle(&file, pool_, cudaMemHandleTypePosixFileDescriptor, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemPoolDestroy(pool_), cudaSuccess);
}

}  // namespace

// Does virtual memory keep its three objects apart, and count physical memory until the last of handles and mappings is gone?
#include <sys/wait.h>
#include <unistd.h>

#include "sim_test.h"

namespace {

constexpr size_t kPiece = 2 * kMiB;

CUmemAllocationProp on_device(CUmemAllocationHandleType shareable = CU_MEM_HANDLE_TYPE_NONE) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = shareable;
  return properties;
}

struct Virtual : Sim {
  CUmemGenericAllocationHandle create(size_t size_bytes = kPiece, CUmemAllocationHandleType shareable = CU_MEM_HANDLE_TYPE_NONE) {
    const CUmemAllocationProp properties = on_device(shareable);
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(DRIVER(cuMemCreate, 10020)(&handle, size_bytes, &properties, 0), CUDA_SUCCESS);
    return handle;
  }
  CUdeviceptr reserve(size_t size_bytes = kPiece) {
    CUdeviceptr address = 0;
    EXPECT_EQ(DRIVER(cuMemAddressReserve, 10020)(&address, size_bytes, 0, 0, 0), CUDA_SUCCESS);
    return address;
  }
  CUresult map(CUdeviceptr address, CUmemGenericAllocationHandle handle, size_t size_bytes = kPiece) {
    return DRIVER(cuMemMap, 10020)(address, size_bytes, 0, handle, 0);
  }
  CUresult unmap(CUdeviceptr address, size_t size_bytes = kPiece) { return DRIVER(cuMemUnmap, 10020)(address, size_bytes); }
  CUresult release(CUmemGenericAllocationHandle handle) { return DRIVER(cuMemRelease, 10020)(handle); }
  size_t taken() { return used_bytes() - baseline_; }
};

TEST_F(Virtual, memory_lives_until_handles_and_mappings_are_gone) {
  const auto handle = create();
  const CUdeviceptr address = reserve();
  EXPECT_EQ(taken(), kPiece);  // address space is no memory
  ASSERT_EQ(map(address, handle), CUDA_SUCCESS);
  EXPECT_EQ(release(handle), CUDA_SUCCESS);  // before the unmapping: legal
  EXPECT_EQ(taken(), kPiece);
  EXPECT_EQ(release(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuMemAddressFree, 10020)(address, kPiece), CUDA_ERROR_INVALID_VALUE);  // still mapped
  EXPECT_EQ(unmap(address), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(DRIVER(cuMemAddressFree, 10020)(address, kPiece), CUDA_SUCCESS);
}

TEST_F(Virtual, mapped_memory_is_the_devices_and_survives_a_reset_of_it) {
  const auto handle = create();
  const CUdeviceptr address = reserve();
  ASSERT_EQ(map(address, handle), CUDA_SUCCESS);
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(DRIVER(cuMemSetAccess, 10020)(address, kPiece, &access, 1), CUDA_SUCCESS);
  EXPECT_EQ(cudaMemset(reinterpret_cast<void*>(address), 7, kPiece), cudaSuccess);
  EXPECT_EQ(reinterpret_cast<char*>(address)[kPiece - 1], 7);
  EXPECT_EQ(cudaFree(reinterpret_cast<void*>(address)), cudaErrorInvalidValue);
  cudaDeviceReset();
  cudaFree(nullptr);
  EXPECT_EQ(taken(), kPiece);
  EXPECT_EQ(unmap(address), CUDA_SUCCESS);
  EXPECT_EQ(release(handle), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(Virtual, a_retained_handle_is_released_twice) {
  const auto handle = create();
  const CUdeviceptr address = reserve();
  ASSERT_EQ(map(address, handle), CUDA_SUCCESS);
  CUmemGenericAllocationHandle again = 0;
  ASSERT_EQ(DRIVER(cuMemRetainAllocationHandle, 11000)(&again, reinterpret_cast<void*>(address + 100)), CUDA_SUCCESS);
  EXPECT_EQ(unmap(address), CUDA_SUCCESS);
  EXPECT_EQ(release(handle), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kPiece);
  EXPECT_EQ(release(again), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(Virtual, several_mappings_go_at_once_and_half_a_mapping_does_not) {
  const auto first = create(), second = create();
  const CUdeviceptr address = reserve(4 * kPiece);
  ASSERT_EQ(map(address, first), CUDA_SUCCESS);
  ASSERT_EQ(map(address + kPiece, second), CUDA_SUCCESS);
  EXPECT_EQ(map(address, second), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(unmap(address, kPiece / 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(unmap(address, 4 * kPiece), CUDA_ERROR_INVALID_VALUE);  // a gap
  EXPECT_EQ(unmap(address, 2 * kPiece), CUDA_SUCCESS);
  EXPECT_EQ(release(first), CUDA_SUCCESS);
  EXPECT_EQ(release(second), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(Virtual, an_imported_file_is_the_same_memory_and_not_counted_again) {
  const auto handle = create(kPiece, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  int file = -1;
  ASSERT_EQ(DRIVER(cuMemExportToShareableHandle, 10020)(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), CUDA_SUCCESS);
  CUmemGenericAllocationHandle imported = 0;
  ASSERT_EQ(DRIVER(cuMemImportFromShareableHandle, 10020)(&imported, reinterpret_cast<void*>(intptr_t{file}),
                                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kPiece);
  EXPECT_EQ(release(imported), CUDA_SUCCESS);
  EXPECT_EQ(release(handle), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  close(file);
}

TEST_F(Virtual, memory_of_another_process_is_opened_and_closed_as_often) {
  int to_parent[2], to_child[2];
  ASSERT_EQ(pipe(to_parent), 0);
  ASSERT_EQ(pipe(to_child), 0);
  const pid_t child = fork();
  if (child == 0) {  // of a process that uses CUDA: it must start anew
    dup2(to_parent[1], 3);
    dup2(to_child[0], 4);
    execl("/proc/self/exe", "sim_test", "--gtest_also_run_disabled_tests", "--gtest_filter=Exporter.DISABLED_shares_a_block", nullptr);
    _exit(1);
  }
  cudaIpcMemHandle_t handle;
  ASSERT_EQ(read(to_parent[0], &handle, sizeof handle), ssize_t{sizeof handle});
  void *first = nullptr, *second = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&first, handle, cudaIpcMemLazyEnablePeerAccess), cudaSuccess);
  EXPECT_EQ(cudaIpcOpenMemHandle(&second, handle, cudaIpcMemLazyEnablePeerAccess), cudaSuccess);
  EXPECT_EQ(first, second);
  EXPECT_EQ(*static_cast<char*>(first), 9);
  EXPECT_EQ(taken(), 0u);  // the exporter's
  EXPECT_EQ(cudaIpcCloseMemHandle(first), cudaSuccess);
  EXPECT_EQ(cudaIpcCloseMemHandle(first), cudaSuccess);
  EXPECT_EQ(cudaIpcCloseMemHandle(first), cudaErrorInvalidValue);
  EXPECT_EQ(write(to_child[1], "x", 1), 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Exporter, DISABLED_shares_a_block) {  // run by the test above in a process of its own
  void* block = nullptr;
  ASSERT_EQ(cudaMalloc(&block, kMiB), cudaSuccess);
  ASSERT_EQ(cudaMemset(block, 9, kMiB), cudaSuccess);
  cudaIpcMemHandle_t handle;
  ASSERT_EQ(cudaIpcGetMemHandle(&handle, block), cudaSuccess);
  void* own = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&own, handle, cudaIpcMemLazyEnablePeerAccess), cudaErrorDeviceUninitialized);
  ASSERT_EQ(write(3, &handle, sizeof handle), ssize_t{sizeof handle});
  char done;
  EXPECT_EQ(read(4, &done, 1), 1);
}

}  // namespace

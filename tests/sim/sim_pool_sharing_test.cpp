// Can a pool and its pointers be given to another process, and does what is imported take no memory there?
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "sim_test.h"

namespace {

cudaMemPool_t make_pool(cudaMemAllocationHandleType types = cudaMemHandleTypePosixFileDescriptor) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = types;
  properties.location = {cudaMemLocationTypeDevice, {0}};
  cudaMemPool_t pool = nullptr;
  EXPECT_EQ(cudaMemPoolCreate(&pool, &properties), cudaSuccess);
  return pool;
}

cudaMemPool_t import_pool(int file) {
  cudaMemPool_t pool = nullptr;
  EXPECT_EQ(cudaMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(intptr_t{file}), cudaMemHandleTypePosixFileDescriptor, 0),
            cudaSuccess);
  return pool;
}

// What the exporter tells through its pipe.
struct Exported {
  pid_t process;
  int pool_file;
  cudaMemPoolPtrExportData pointer;
};

// The exporter runs until the end of the test.
struct PoolSharing : Sim {
  void SetUp() override {
    Sim::SetUp();
    int to_parent[2], to_child[2];
    ASSERT_EQ(pipe(to_parent), 0);
    ASSERT_EQ(pipe(to_child), 0);
    child_ = fork();
    if (child_ == 0) {  // of a process that uses CUDA: it must start anew
      dup2(to_parent[1], 3);
      dup2(to_child[0], 4);
      execl("/proc/self/exe", "sim_test", "--gtest_also_run_disabled_tests", "--gtest_filter=PoolExporter.DISABLED_*", nullptr);
      _exit(1);
    }
    release_child_ = to_child[1];
    const ssize_t told = read(to_parent[0], &exported_, sizeof exported_);
    for (int file : {to_parent[0], to_parent[1], to_child[0]}) close(file);
    ASSERT_EQ(told, ssize_t{sizeof exported_});
    const std::string path = "/proc/" + std::to_string(exported_.process) + "/fd/" + std::to_string(exported_.pool_file);
    file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);  // a program would send it through a socket
    ASSERT_GE(file_, 0);
  }
  void TearDown() override {
    EXPECT_EQ(write(release_child_, "x", 1), 1);
    int status = 0;
    waitpid(child_, &status, 0);
    EXPECT_EQ(status, 0);
    close(file_);
    close(release_child_);
  }
  pid_t child_ = -1;
  int release_child_ = -1, file_ = -1;
  Exported exported_{};
};

TEST_F(PoolSharing, an_imported_pointer_shows_the_bytes_and_takes_no_memory) {
  cudaMemPool_t pool = import_pool(file_);
  void *first = nullptr, *second = nullptr;
  ASSERT_EQ(cudaMemPoolImportPointer(&first, pool, &exported_.pointer), cudaSuccess);
  ASSERT_EQ(cudaMemPoolImportPointer(&second, pool, &exported_.pointer), cudaSuccess);
  EXPECT_EQ(static_cast<char*>(first)[kMiB - 1], 9);
  EXPECT_EQ(used_bytes(), baseline_);
  CUmemoryPool of_pointer = nullptr;
  EXPECT_EQ(DRIVER(cuPointerGetAttribute, 4000)(&of_pointer, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, reinterpret_cast<CUdeviceptr>(first)),
            CUDA_SUCCESS);
  EXPECT_EQ(of_pointer, pool);
  EXPECT_EQ(cudaFreeAsync(first, nullptr), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(first, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
  EXPECT_EQ(static_cast<char*>(second)[0], 9);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
  EXPECT_EQ(used_bytes(), baseline_);
}

TEST_F(PoolSharing, nothing_can_be_allocated_from_an_imported_pool) {
  cudaMemPool_t pool = import_pool(file_);
  void* block = nullptr;
  EXPECT_EQ(cudaMallocFromPoolAsync(&block, kMiB, pool, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceSetMemPool(0, pool), cudaErrorInvalidValue);
  int again = -1;
  EXPECT_EQ(cudaMemPoolExportToShareableHandle(&again, pool, cudaMemHandleTypePosixFileDescriptor, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
}

TEST_F(PoolSharing, a_pointer_is_imported_into_its_own_pool_only) {
  void* block = nullptr;
  cudaMemPool_t own = make_pool();
  EXPECT_EQ(cudaMemPoolImportPointer(&block, own, &exported_.pointer), cudaErrorInvalidValue);
  int file = -1;
  ASSERT_EQ(cudaMemPoolExportToShareableHandle(&file, own, cudaMemHandleTypePosixFileDescriptor, 0), cudaSuccess);
  cudaMemPool_t other = import_pool(file);
  EXPECT_EQ(cudaMemPoolImportPointer(&block, other, &exported_.pointer), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemPoolDestroy(other), cudaSuccess);
  EXPECT_EQ(cudaMemPoolDestroy(own), cudaSuccess);
  close(file);
}

TEST_F(PoolSharing, only_pools_made_for_it_are_exported) {
  cudaMemPool_t pool = make_pool(cudaMemHandleTypeNone);
  int file = -1;
  EXPECT_EQ(cudaMemPoolExportToShareableHandle(&file, pool, cudaMemHandleTypePosixFileDescriptor, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemPoolExportToShareableHandle(&file, default_pool(), cudaMemHandleTypePosixFileDescriptor, 0), cudaErrorInvalidValue);
  void* block = nullptr;
  ASSERT_EQ(cudaMallocFromPoolAsync(&block, kMiB, pool, nullptr), cudaSuccess);
  cudaMemPoolPtrExportData data;
  EXPECT_EQ(cudaMemPoolExportPointer(&data, block), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(block), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&block, kMiB), cudaSuccess);
  EXPECT_EQ(cudaMemPoolExportPointer(&data, block), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(block), cudaSuccess);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
}

TEST(PoolExporter, DISABLED_shares_a_pool) {  // run by the tests above in a process of its own
  cudaMemPool_t pool = make_pool();
  void* block = nullptr;
  ASSERT_EQ(cudaMallocFromPoolAsync(&block, kMiB, pool, nullptr), cudaSuccess);
  ASSERT_EQ(cudaMemset(block, 9, kMiB), cudaSuccess);
  Exported exported{};
  exported.process = getpid();
  ASSERT_EQ(cudaMemPoolExportToShareableHandle(&exported.pool_file, pool, cudaMemHandleTypePosixFileDescriptor, 0), cudaSuccess);
  ASSERT_EQ(cudaMemPoolExportPointer(&exported.pointer, block), cudaSuccess);
  ASSERT_EQ(write(3, &exported, sizeof exported), ssize_t{sizeof exported});
  char done;
  EXPECT_EQ(read(4, &done, 1), 1);
}

}  // namespace

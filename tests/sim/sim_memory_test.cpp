// Do linear, managed, pinned and array memory behave as documented, and is what they use counted?
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "sim_test.h"

namespace {

using MemoryTest = Sim;

TEST_F(MemoryTest, bytes_written_come_back) {
  std::vector<int> source(1000, 7), target(1000);
  void* p = nullptr;
  ASSERT_EQ(cudaMalloc(&p, 4000), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(p, source.data(), 4000, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemset(p, 0, 4), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(target.data(), p, 4000, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(target[0], 0);
  EXPECT_EQ(target[999], 7);
  EXPECT_EQ(cudaFree(p), cudaSuccess);
}

TEST_F(MemoryTest, size_zero_and_null) {
  void* p = &p;
  EXPECT_EQ(cudaMalloc(&p, 0), cudaSuccess);
  EXPECT_EQ(p, nullptr);
  CUdeviceptr address = 0;
  EXPECT_EQ(DRIVER(cuMemAlloc, 3020)(&address, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuMemFree, 3020)(0), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemFreeHost, 2000)(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaMalloc(nullptr, 4), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, wrong_frees_are_invalid_values) {
  void *p = nullptr, *pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&p, kMiB), cudaSuccess);
  EXPECT_EQ(cudaFree(static_cast<char*>(p) + 512), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(p), cudaSuccess);
  EXPECT_EQ(cudaFree(p), cudaErrorInvalidValue);
  ASSERT_EQ(cudaMallocHost(&pinned, 4096), cudaSuccess);
  EXPECT_EQ(cudaFree(pinned), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, out_of_memory_leaves_null) {
  void* p = &p;
  EXPECT_EQ(cudaMalloc(&p, size_t{1} << 50), cudaErrorMemoryAllocation);
  EXPECT_EQ(p, nullptr);
  EXPECT_EQ(cudaMalloc(&p, ~size_t{0}), cudaErrorMemoryAllocation);
  CUdeviceptr address = 7;
  EXPECT_EQ(DRIVER(cuMemAlloc, 3020)(&address, size_t{1} << 50), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(address, 0u);
}

TEST_F(MemoryTest, use_is_counted_per_kind) {
  void *linear = nullptr, *managed = nullptr, *pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&linear, kMiB), cudaSuccess);
  EXPECT_EQ(used_bytes(), baseline_ + kMiB);
  ASSERT_EQ(cudaMallocManaged(&managed, kMiB, cudaMemAttachGlobal), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, kMiB), cudaSuccess);
  EXPECT_EQ(used_bytes(), baseline_ + kMiB);  // neither is resident
  EXPECT_EQ(cudaFree(linear), cudaSuccess);
  EXPECT_EQ(cudaFree(managed), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(used_bytes(), baseline_);
}

TEST_F(MemoryTest, full_device_can_be_filled_and_emptied_in_any_order) {
  size_t free_bytes, total_bytes;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  std::vector<void*> blocks(64);
  size_t each = free_bytes / 10 * 9 / blocks.size();
  for (void*& block : blocks) ASSERT_EQ(cudaMalloc(&block, each), cudaSuccess);
  for (size_t i = 0; i < blocks.size(); i += 2) ASSERT_EQ(cudaFree(blocks[i]), cudaSuccess);
  void* half = nullptr;  // memory is not fragmented, only addresses are
  EXPECT_EQ(cudaMalloc(&half, each * blocks.size() / 2), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&blocks[0], free_bytes / 5), cudaErrorMemoryAllocation);
}

TEST_F(MemoryTest, freed_address_is_used_again) {
  void *first = nullptr, *second = nullptr;
  ASSERT_EQ(cudaMalloc(&first, kMiB), cudaSuccess);
  ASSERT_EQ(cudaFree(first), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&second, kMiB), cudaSuccess);
  EXPECT_EQ(first, second);
}

TEST_F(MemoryTest, pitched_rows_are_aligned_and_copied) {
  void* p = nullptr;
  size_t pitch = 0;
  ASSERT_EQ(cudaMallocPitch(&p, &pitch, 100, 3), cudaSuccess);
  EXPECT_EQ(pitch, 512u);
  char rows[3][100], back[3][100] = {};
  std::memset(rows, 'x', sizeof rows);
  rows[2][99] = 'y';
  ASSERT_EQ(cudaMemcpy2D(p, pitch, rows, 100, 100, 3, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemset2D(p, pitch, 'z', 1, 3), cudaSuccess);
  ASSERT_EQ(cudaMemcpy2D(back, 100, p, pitch, 100, 3, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back[1][0], 'z');
  EXPECT_EQ(back[1][1], 'x');
  EXPECT_EQ(back[2][99], 'y');
  cudaPitchedPtr box;
  ASSERT_EQ(cudaMalloc3D(&box, {100, 3, 2}), cudaSuccess);
  EXPECT_EQ(box.ysize, 3u);
  EXPECT_EQ(cudaMemset3D(box, 1, {100, 3, 2}), cudaSuccess);
}

TEST_F(MemoryTest, registered_memory_is_known_until_unregistered) {
  std::vector<char> memory(1 << 16);
  ASSERT_EQ(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterDefault), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(memory.data() + 10, 10, 0), cudaErrorHostMemoryAlreadyRegistered);
  void* device = nullptr;
  EXPECT_EQ(cudaHostGetDevicePointer(&device, memory.data(), 0), cudaSuccess);
  EXPECT_EQ(device, memory.data());
  EXPECT_EQ(cudaFreeHost(memory.data()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostUnregister(memory.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(memory.data()), cudaErrorHostMemoryNotRegistered);
}

TEST_F(MemoryTest, pointer_attributes_name_the_kind) {
  void *linear = nullptr, *managed = nullptr, *pinned = nullptr;
  int local = 0;
  ASSERT_EQ(cudaMalloc(&linear, 64), cudaSuccess);
  ASSERT_EQ(cudaMallocManaged(&managed, 64, cudaMemAttachGlobal), cudaSuccess);
  ASSERT_EQ(cudaHostAlloc(&pinned, 64, cudaHostAllocPortable), cudaSuccess);
  std::map<void*, cudaMemoryType> expected = {{linear, cudaMemoryTypeDevice},
                                              {managed, cudaMemoryTypeManaged},
                                              {pinned, cudaMemoryTypeHost},
                                              {&local, cudaMemoryTypeUnregistered}};
  for (auto [pointer, type] : expected) {
    cudaPointerAttributes attributes;
    ASSERT_EQ(cudaPointerGetAttributes(&attributes, pointer), cudaSuccess);
    EXPECT_EQ(attributes.type, type);
  }
  CUdeviceptr base = 0;
  size_t size_bytes = 0;
  auto inside = reinterpret_cast<CUdeviceptr>(linear) + 10;
  EXPECT_EQ(DRIVER(cuMemGetAddressRange, 3020)(&base, &size_bytes, inside), CUDA_SUCCESS);
  EXPECT_EQ(base, inside - 10);
  EXPECT_EQ(size_bytes, 64u);
  unsigned flags = 0;
  EXPECT_EQ(cudaHostGetFlags(&flags, pinned), cudaSuccess);
  EXPECT_EQ(flags, cudaHostAllocPortable | cudaHostAllocMapped);
}

TEST_F(MemoryTest, many_threads_allocate_and_free) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; t++)
    threads.emplace_back([] {
      for (int i = 0; i < 500; i++) {
        void *p = nullptr, *q = nullptr;
        ASSERT_EQ(cudaMalloc(&p, 1000 + i), cudaSuccess);
        ASSERT_EQ(cudaMallocAsync(&q, 1000 + i, cudaStreamPerThread), cudaSuccess);
        ASSERT_EQ(cudaFree(p), cudaSuccess);
        ASSERT_EQ(cudaFreeAsync(q, cudaStreamPerThread), cudaSuccess);
      }
    });
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(used_bytes(), baseline_);
}

using ArrayTest = Sim;

TEST_F(ArrayTest, array_takes_memory_and_holds_rows) {
  cudaChannelFormatDesc floats = {32, 0, 0, 0, cudaChannelFormatKindFloat};
  cudaArray_t array = nullptr;
  ASSERT_EQ(cudaMallocArray(&array, &floats, 10, 4, 0), cudaSuccess);
  EXPECT_GE(used_bytes(), baseline_ + 160);
  float rows[4][10], back[4][10] = {};
  for (auto& row : rows)
    for (float& value : row) value = 2.5f;
  ASSERT_EQ(cudaMemcpy2DToArray(array, 0, 0, rows, 40, 40, 4, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy2DFromArray(back, 40, array, 0, 0, 40, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back[3][9], 2.5f);
  cudaExtent extent;
  ASSERT_EQ(cudaArrayGetInfo(nullptr, &extent, nullptr, array), cudaSuccess);
  EXPECT_EQ(extent.width, 10u);
  EXPECT_EQ(cudaFreeArray(array), cudaSuccess);
  EXPECT_EQ(cudaFreeArray(array), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(used_bytes(), baseline_);
}

TEST_F(ArrayTest, only_arrays_without_memory_tell_their_requirements) {
  cudaChannelFormatDesc floats = {32, 0, 0, 0, cudaChannelFormatKindFloat};
  cudaArray_t array = nullptr;
  cudaArrayMemoryRequirements requirements;
  ASSERT_EQ(cudaMallocArray(&array, &floats, 1000, 1000, 0), cudaSuccess);
  EXPECT_EQ(cudaArrayGetMemoryRequirements(&requirements, array, 0), cudaErrorInvalidValue);
  ASSERT_EQ(cudaFreeArray(array), cudaSuccess);
  ASSERT_EQ(cudaMallocArray(&array, &floats, 1000, 1000, cudaArrayDeferredMapping), cudaSuccess);
  EXPECT_EQ(used_bytes(), baseline_);
  ASSERT_EQ(cudaArrayGetMemoryRequirements(&requirements, array, 0), cudaSuccess);
  EXPECT_GE(requirements.size, 4000000u);
  EXPECT_EQ(requirements.size % requirements.alignment, 0u);
  EXPECT_EQ(cudaFreeArray(array), cudaSuccess);
}

TEST_F(ArrayTest, mipmap_levels_are_borrowed) {
  cudaChannelFormatDesc bytes = {8, 8, 8, 8, cudaChannelFormatKindUnsigned};
  cudaMipmappedArray_t mipmapped = nullptr;
  cudaArray_t level = nullptr;
  ASSERT_EQ(cudaMallocMipmappedArray(&mipmapped, &bytes, {256, 256, 0}, 3, 0), cudaSuccess);
  ASSERT_EQ(cudaGetMipmappedArrayLevel(&level, mipmapped, 2), cudaSuccess);
  cudaExtent extent;
  ASSERT_EQ(cudaArrayGetInfo(nullptr, &extent, nullptr, level), cudaSuccess);
  EXPECT_EQ(extent.width, 64u);
  size_t before = used_bytes();
  EXPECT_EQ(cudaFreeArray(level), cudaSuccess);  // and does nothing
  EXPECT_EQ(used_bytes(), before);
  EXPECT_EQ(cudaFreeMipmappedArray(mipmapped), cudaSuccess);
  EXPECT_EQ(used_bytes(), baseline_);
}

}  // namespace

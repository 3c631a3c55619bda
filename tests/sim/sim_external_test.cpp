// Is memory of other APIs mapped rather than taken from the device, and who frees what?
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim_test.h"

namespace {

struct External : Sim {
  // A file of one MiB, the driver's once it is imported.
  int make_file() {
    const int file = memfd_create("external", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(file, kMiB), 0);
    return file;
  }
  cudaExternalMemory_t import(int file, size_t size_bytes = kMiB) {
    cudaExternalMemoryHandleDesc description{};
    description.type = cudaExternalMemoryHandleTypeOpaqueFd;
    description.handle.fd = file;
    description.size = size_bytes;
    cudaExternalMemory_t memory = nullptr;
    last_ = cudaImportExternalMemory(&memory, &description);
    return memory;
  }
  char* map(cudaExternalMemory_t memory, size_t offset, size_t size_bytes) {
    cudaExternalMemoryBufferDesc description{};
    description.offset = offset;
    description.size = size_bytes;
    void* address = nullptr;
    last_ = cudaExternalMemoryGetMappedBuffer(&address, memory, &description);
    return static_cast<char*>(address);
  }
  cudaError_t last_ = cudaSuccess;
};

TEST_F(External, buffers_show_the_file_and_outlive_the_memory_object) {
  const int file = make_file();
  ASSERT_EQ(pwrite(file, "vulkan", 6, 1000), 6);
  cudaExternalMemory_t memory = import(file);
  ASSERT_EQ(last_, cudaSuccess);
  char* whole = map(memory, 0, kMiB);
  char* part = map(memory, 1000, 5000);
  EXPECT_EQ(cudaDestroyExternalMemory(memory), cudaSuccess);
  EXPECT_EQ(fcntl(file, F_GETFD), -1);  // the driver's, and closed
  EXPECT_EQ(part[0], 'v');
  EXPECT_EQ(cudaMemset(part, 'x', 5000), cudaSuccess);
  EXPECT_EQ(whole[5999], 'x');
  EXPECT_EQ(used_bytes(), baseline_);
  EXPECT_EQ(cudaFree(part + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(part), cudaSuccess);
  EXPECT_EQ(cudaFree(part), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(whole), cudaSuccess);
  EXPECT_EQ(used_bytes(), baseline_);
}

TEST_F(External, a_buffer_is_device_memory_of_known_size) {
  cudaExternalMemory_t memory = import(make_file());
  char* part = map(memory, 1000, 5000);
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, part + 4999), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  CUdeviceptr base = 0;
  size_t size_bytes = 0;
  ASSERT_EQ(DRIVER(cuMemGetAddressRange, 3020)(&base, &size_bytes, reinterpret_cast<CUdeviceptr>(part + 10)), CUDA_SUCCESS);
  EXPECT_EQ(base, reinterpret_cast<CUdeviceptr>(part));
  EXPECT_EQ(size_bytes, 5000u);
  EXPECT_EQ(cudaFreeAsync(part, nullptr), cudaSuccess);
  EXPECT_EQ(cudaDestroyExternalMemory(memory), cudaSuccess);
}

TEST_F(External, what_does_not_fit_is_refused) {
  const int file = make_file();
  import(file, 2 * kMiB);
  EXPECT_EQ(last_, cudaErrorInvalidValue);
  EXPECT_NE(fcntl(file, F_GETFD), -1);  // still the program's
  import(-1);
  EXPECT_EQ(last_, cudaErrorInvalidResourceHandle);
  cudaExternalMemory_t memory = import(file);
  ASSERT_EQ(last_, cudaSuccess);
  map(memory, 1, kMiB);
  EXPECT_EQ(last_, cudaErrorInvalidValue);
  map(memory, ~size_t{0}, 2);
  EXPECT_EQ(last_, cudaErrorInvalidValue);
  EXPECT_EQ(cudaDestroyExternalMemory(memory), cudaSuccess);
  EXPECT_EQ(cudaDestroyExternalMemory(memory), cudaErrorInvalidResourceHandle);
  map(memory, 0, 1);
  EXPECT_EQ(last_, cudaErrorInvalidResourceHandle);
}

TEST_F(External, other_kinds_of_handles_are_not_simulated) {
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC description{};
  description.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF;
  description.size = kMiB;
  CUexternalMemory memory = nullptr;
  EXPECT_EQ(DRIVER(cuImportExternalMemory, 10000)(&memory, &description), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(External, mipmapped_arrays_take_no_memory_and_outlive_the_memory_object) {
  cudaExternalMemory_t memory = import(make_file());
  CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC description{};
  description.offset = 4096;
  description.arrayDesc = {64, 64, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};
  description.numLevels = 3;
  CUmipmappedArray mipmapped = nullptr;
  ASSERT_EQ(DRIVER(cuExternalMemoryGetMappedMipmappedArray, 10000)(&mipmapped, reinterpret_cast<CUexternalMemory>(memory), &description),
            CUDA_SUCCESS);
  char* bytes = map(memory, 4096, 64 * 64 + 32 * 32);
  EXPECT_EQ(cudaDestroyExternalMemory(memory), cudaSuccess);
  CUarray level = nullptr;
  ASSERT_EQ(DRIVER(cuMipmappedArrayGetLevel, 5000)(&level, mipmapped, 1), CUDA_SUCCESS);
  ASSERT_EQ(cudaMemcpy2DToArray(reinterpret_cast<cudaArray_t>(level), 0, 0, "pixels", 6, 6, 1, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(bytes[64 * 64], 'p');
  EXPECT_EQ(used_bytes(), baseline_);
  EXPECT_EQ(DRIVER(cuMipmappedArrayDestroy, 5000)(mipmapped), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMipmappedArrayDestroy, 5000)(mipmapped), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cudaFree(bytes), cudaSuccess);
  EXPECT_EQ(used_bytes(), baseline_);
}

TEST_F(External, everything_goes_with_its_context) {
  const int file = make_file();
  cudaExternalMemory_t memory = import(file);
  char* whole = map(memory, 0, kMiB);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cudaFree(whole), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDestroyExternalMemory(memory), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(fcntl(file, F_GETFD), -1);
}

}  // namespace

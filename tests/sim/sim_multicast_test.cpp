// Does memory that is bound to a multicast object live until it is unbound or the object is gone, and does the object take none?
#include "sim_test.h"

namespace {

constexpr size_t kPiece = 2 * kMiB;

struct MulticastTest : Sim {
  CUmemGenericAllocationHandle object(size_t size_bytes = kPiece, bool complete = true) {
    CUmulticastObjectProp properties{};
    properties.numDevices = 1;
    properties.size = size_bytes;
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(DRIVER(cuMulticastCreate, 12010)(&handle, &properties), CUDA_SUCCESS);
    if (complete) {
      EXPECT_EQ(DRIVER(cuMulticastAddDevice, 12010)(handle, 0), CUDA_SUCCESS);
    }
    return handle;
  }
  CUmemGenericAllocationHandle memory(size_t size_bytes = kPiece) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(DRIVER(cuMemCreate, 10020)(&handle, size_bytes, &properties, 0), CUDA_SUCCESS);
    return handle;
  }
  CUdeviceptr map(CUmemGenericAllocationHandle handle) {
    CUdeviceptr address = 0;
    EXPECT_EQ(DRIVER(cuMemAddressReserve, 10020)(&address, kPiece, 0, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(DRIVER(cuMemMap, 10020)(address, kPiece, 0, handle, 0), CUDA_SUCCESS);
    return address;
  }
  void unmap(CUdeviceptr address) {
    EXPECT_EQ(DRIVER(cuMemUnmap, 10020)(address, kPiece), CUDA_SUCCESS);
    EXPECT_EQ(DRIVER(cuMemAddressFree, 10020)(address, kPiece), CUDA_SUCCESS);
  }
  CUresult bind(CUmemGenericAllocationHandle object, CUmemGenericAllocationHandle memory, size_t offset = 0) {
    return DRIVER(cuMulticastBindMem, 12010)(object, offset, memory, 0, kPiece, 0);
  }
  CUresult unbind(CUmemGenericAllocationHandle object, size_t size_bytes = kPiece) {
    return DRIVER(cuMulticastUnbind, 12010)(object, 0, 0, size_bytes);
  }
  CUresult release(CUmemGenericAllocationHandle handle) { return DRIVER(cuMemRelease, 10020)(handle); }
  size_t taken() { return used_bytes() - baseline_; }
};

TEST_F(MulticastTest, bound_memory_lives_until_it_is_unbound) {
  const auto object = this->object(), memory = this->memory();
  EXPECT_EQ(taken(), kPiece);
  ASSERT_EQ(bind(object, memory), CUDA_SUCCESS);
  EXPECT_EQ(release(memory), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kPiece);
  EXPECT_EQ(unbind(object, kPiece / 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(unbind(object), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(unbind(object), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(release(object), CUDA_SUCCESS);
}

TEST_F(MulticastTest, bound_memory_goes_with_the_object_and_its_mapping) {
  const auto object = this->object(), memory = this->memory();
  ASSERT_EQ(bind(object, memory), CUDA_SUCCESS);
  const CUdeviceptr address = map(object);
  EXPECT_EQ(release(memory), CUDA_SUCCESS);
  EXPECT_EQ(release(object), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kPiece);
  unmap(address);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(release(object), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MulticastTest, memory_can_be_bound_by_its_address) {
  const auto object = this->object(), memory = this->memory();
  const CUdeviceptr address = map(memory);
  EXPECT_EQ(DRIVER(cuMulticastBindAddr, 12010)(object, 0, address, 2 * kPiece, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(DRIVER(cuMulticastBindAddr, 12010)(object, 0, address, kPiece, 0), CUDA_SUCCESS);
  unmap(address);
  EXPECT_EQ(release(memory), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kPiece);
  EXPECT_EQ(release(object), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(MulticastTest, places_are_checked) {
  const auto object = this->object(2 * kPiece), first = memory(), second = memory();
  EXPECT_EQ(bind(object, first, kPiece / 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(bind(object, first, 2 * kPiece), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(bind(object, object), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(bind(first, second), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(bind(object, first), CUDA_SUCCESS);
  EXPECT_EQ(bind(object, second), CUDA_ERROR_INVALID_VALUE);  // taken
  EXPECT_EQ(bind(object, second, kPiece), CUDA_SUCCESS);
  for (const auto handle : {object, first, second}) EXPECT_EQ(release(handle), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(MulticastTest, all_devices_must_be_added_first) {
  const auto object = this->object(kPiece, false), memory = this->memory();
  EXPECT_EQ(bind(object, memory), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(DRIVER(cuMulticastAddDevice, 12010)(object, 64), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(DRIVER(cuMulticastAddDevice, 12010)(memory, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuMulticastAddDevice, 12010)(object, 0), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMulticastAddDevice, 12010)(object, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(bind(object, memory), CUDA_SUCCESS);
  EXPECT_EQ(release(object), CUDA_SUCCESS);
  EXPECT_EQ(release(memory), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(MulticastTest, size_is_a_multiple_of_the_granularity) {
  CUmulticastObjectProp properties{};
  properties.numDevices = 1;
  properties.size = kMiB;
  size_t granularity = 0;
  EXPECT_EQ(DRIVER(cuMulticastGetGranularity, 12010)(&granularity, &properties, CU_MULTICAST_GRANULARITY_MINIMUM), CUDA_SUCCESS);
  EXPECT_EQ(granularity, kPiece);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(DRIVER(cuMulticastCreate, 12010)(&handle, &properties), CUDA_ERROR_INVALID_VALUE);
  properties.size = kPiece;
  properties.numDevices = 65;
  EXPECT_EQ(DRIVER(cuMulticastCreate, 12010)(&handle, &properties), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace

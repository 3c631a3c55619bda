// Does memory that is mapped to arrays live until the last of its tiles is unmapped, mapped anew or gone with its array?
#include "sim_test.h"

namespace {

constexpr size_t kPiece = 2 * kMiB;
constexpr size_t kTileBytes = 64 << 10;

struct Sparse : Sim {
  CUmemGenericAllocationHandle memory(unsigned short usage = CU_MEM_CREATE_USAGE_TILE_POOL) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.allocFlags.usage = usage;
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(DRIVER(cuMemCreate, 10020)(&handle, kPiece, &properties, 0), CUDA_SUCCESS);
    return handle;
  }
  CUresult release(CUmemGenericAllocationHandle handle) { return DRIVER(cuMemRelease, 10020)(handle); }
  // Of 512 x 512 floats: 4 x 4 tiles.
  CUarray array(unsigned flags = CUDA_ARRAY3D_SPARSE) {
    const CUDA_ARRAY3D_DESCRIPTOR descriptor = {512, 512, 0, CU_AD_FORMAT_FLOAT, 1, flags};
    CUarray array = nullptr;
    EXPECT_EQ(DRIVER(cuArray3DCreate, 3020)(&array, &descriptor), CUDA_SUCCESS);
    return array;
  }
  CUmipmappedArray mipmapped(unsigned flags = CUDA_ARRAY3D_SPARSE) {
    const CUDA_ARRAY3D_DESCRIPTOR descriptor = {512, 512, 0, CU_AD_FORMAT_FLOAT, 1, flags};
    CUmipmappedArray array = nullptr;
    EXPECT_EQ(DRIVER(cuMipmappedArrayCreate, 5000)(&array, &descriptor, 5), CUDA_SUCCESS);
    return array;
  }
  CUresult destroy(CUarray array) { return DRIVER(cuArrayDestroy, 2000)(array); }
  static CUarrayMapInfo whole(CUarray array, CUmemGenericAllocationHandle memory) {
    CUarrayMapInfo info{};
    info.resourceType = CU_RESOURCE_TYPE_ARRAY;
    info.resource.array = array;
    info.subresource.sparseLevel.extentWidth = info.subresource.sparseLevel.extentHeight = 512;
    info.subresource.sparseLevel.extentDepth = 1;
    info.memOperationType = memory != 0 ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP;
    info.memHandle.memHandle = memory;
    info.deviceBitMask = 1;
    return info;
  }
  CUresult perform(CUarrayMapInfo info) { return DRIVER(cuMemMapArrayAsync, 11010)(&info, 1, nullptr); }
  size_t taken() { return used_bytes() - baseline_; }
};

TEST_F(Sparse, an_array_takes_nothing_and_its_tiles_hold_what_is_mapped) {
  CUarray array = this->array();
  EXPECT_EQ(taken(), 0u);
  const auto memory = this->memory();
  ASSERT_EQ(perform(whole(array, memory)), CUDA_SUCCESS);
  EXPECT_EQ(release(memory), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kPiece);
  CUarrayMapInfo half = whole(array, 0);
  half.subresource.sparseLevel.extentWidth = 256;
  EXPECT_EQ(perform(half), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kPiece);
  half.subresource.sparseLevel.offsetX = 256;
  EXPECT_EQ(perform(half), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(destroy(array), CUDA_SUCCESS);
}

TEST_F(Sparse, mapping_anew_and_destroying_the_array_let_go_too) {
  CUarray array = this->array();
  const auto first = memory(), second = memory();
  ASSERT_EQ(perform(whole(array, first)), CUDA_SUCCESS);
  EXPECT_EQ(release(first), CUDA_SUCCESS);
  ASSERT_EQ(perform(whole(array, second)), CUDA_SUCCESS);
  EXPECT_EQ(release(second), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kPiece);
  EXPECT_EQ(destroy(array), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(Sparse, a_list_is_performed_whole_or_not_at_all) {
  CUarray array = this->array();
  const auto memory = this->memory();
  CUarrayMapInfo list[] = {whole(array, memory), whole(array, memory)};
  list[1].offset = kPiece;
  EXPECT_EQ(DRIVER(cuMemMapArrayAsync, 11010)(list, 2, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(release(memory), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(destroy(array), CUDA_SUCCESS);
}

TEST_F(Sparse, operations_are_checked) {
  CUarray sparse = array(), dense = array(0);
  const auto pool = memory(), plain = memory(0);
  CUarrayMapInfo info = whole(sparse, plain);
  EXPECT_EQ(perform(info), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(perform(whole(dense, pool)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(perform(whole(nullptr, pool)), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(perform(whole(sparse, 1)), CUDA_ERROR_INVALID_HANDLE);
  info = whole(sparse, pool);
  info.deviceBitMask = 2;
  EXPECT_EQ(perform(info), CUDA_ERROR_INVALID_VALUE);
  info = whole(sparse, pool);
  info.subresource.sparseLevel.offsetX = 64;  // half a tile
  info.subresource.sparseLevel.extentWidth = 128;
  EXPECT_EQ(perform(info), CUDA_ERROR_INVALID_VALUE);
  info = whole(sparse, pool);
  info.subresource.sparseLevel.offsetY = 128;  // beyond the end
  EXPECT_EQ(perform(info), CUDA_ERROR_INVALID_VALUE);
  info = whole(sparse, pool);
  info.subresource.sparseLevel.layer = 1;
  EXPECT_EQ(perform(info), CUDA_ERROR_INVALID_VALUE);
  info = whole(sparse, pool);
  info.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;  // with a handle
  EXPECT_EQ(perform(info), CUDA_ERROR_INVALID_VALUE);
  info = whole(sparse, pool);
  info.offset = kPiece - 15 * kTileBytes;
  EXPECT_EQ(perform(info), CUDA_ERROR_INVALID_VALUE);
  info.offset = kPiece - 16 * kTileBytes;
  EXPECT_EQ(perform(info), CUDA_SUCCESS);
  for (CUarray array : {sparse, dense}) EXPECT_EQ(destroy(array), CUDA_SUCCESS);
  for (const auto handle : {pool, plain}) EXPECT_EQ(release(handle), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(Sparse, tiles_have_an_extent) {
  CUarray array = this->array(), dense = this->array(0);
  CUDA_ARRAY_SPARSE_PROPERTIES properties{};
  ASSERT_EQ(DRIVER(cuArrayGetSparseProperties, 11010)(&properties, array), CUDA_SUCCESS);
  EXPECT_EQ(properties.tileExtent.width * properties.tileExtent.height * properties.tileExtent.depth * sizeof(float), kTileBytes);
  EXPECT_EQ(DRIVER(cuArrayGetSparseProperties, 11010)(&properties, dense), CUDA_ERROR_INVALID_VALUE);
  for (CUarray one : {array, dense}) EXPECT_EQ(destroy(one), CUDA_SUCCESS);
}

TEST_F(Sparse, levels_that_are_smaller_than_a_tile_are_the_mip_tail) {
  CUmipmappedArray mipmapped = this->mipmapped();
  CUDA_ARRAY_SPARSE_PROPERTIES properties{};
  ASSERT_EQ(DRIVER(cuMipmappedArrayGetSparseProperties, 11010)(&properties, mipmapped), CUDA_SUCCESS);
  EXPECT_EQ(properties.miptailFirstLevel, 3u);  // of 64 x 64
  EXPECT_EQ(properties.miptailSize, 2 * kTileBytes);
  const auto memory = this->memory();
  CUarrayMapInfo tail = whole(nullptr, memory);
  tail.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  tail.resource.mipmap = mipmapped;
  tail.subresource.sparseLevel.level = 3;
  EXPECT_EQ(perform(tail), CUDA_ERROR_INVALID_VALUE);
  tail.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
  tail.subresource.miptail = {0, 0, 3 * kTileBytes};
  EXPECT_EQ(perform(tail), CUDA_ERROR_INVALID_VALUE);
  tail.subresource.miptail = {0, kTileBytes, kTileBytes};
  EXPECT_EQ(perform(tail), CUDA_SUCCESS);
  EXPECT_EQ(release(memory), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kPiece);
  EXPECT_EQ(DRIVER(cuMipmappedArrayDestroy, 5000)(mipmapped), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(Sparse, deferred_mapping_is_of_the_whole_array) {
  CUarray array = this->array(CUDA_ARRAY3D_DEFERRED_MAPPING);
  const auto memory = this->memory();
  CUarrayMapInfo info = whole(array, memory);
  info.subresource.sparseLevel.extentWidth = 1;  // ignored
  ASSERT_EQ(perform(info), CUDA_SUCCESS);
  EXPECT_EQ(release(memory), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kPiece);
  EXPECT_EQ(perform(whole(array, 0)), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(destroy(array), CUDA_SUCCESS);
}

TEST_F(Sparse, the_per_thread_variant_does_the_same) {
  CUarray array = this->array();
  const auto memory = this->memory();
  CUarrayMapInfo info = whole(array, memory);
  auto map = reinterpret_cast<PFN_cuMemMapArrayAsync_v11010>(
      look_up("cuMemMapArrayAsync", 11010, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM).address);
  EXPECT_EQ(map(&info, 1, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(release(memory), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kPiece);
  EXPECT_EQ(destroy(array), CUDA_SUCCESS);
}

TEST_F(Sparse, texture_references_are_not_simulated) {
  void* reference = nullptr;
  auto create = driver_symbol<CUresult (*)(void**)>("cuTexRefCreate");
  EXPECT_EQ(create(&reference), CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace

// Which memory is behind the pieces of sparse arrays, and of those with deferred mapping?
//
// A mapping is a reference to physical memory for each tile. Nothing can be copied to or from such arrays. What a tile measures is the
// driver's to say. Mapping a tile again replaces what it had; unmapping one that has nothing is no error.
#include <bit>

#include "array.h"
#include "capture.h"
#include "virtual.h"

namespace sim {
namespace {

constexpr unsigned kTail = ~0u;  // Tile::level

struct Extent {
  unsigned width, height, depth;
};

bool is_volume(const CUDA_ARRAY3D_DESCRIPTOR& d) { return d.Depth != 0 && !is_layered(d); }

// A tile is as square, or as cubic, as powers of two can be.
Extent tile_extent(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  const int bits = std::countr_zero(kTileBytes / element_bytes(d));
  if (!is_volume(d)) return {1u << (bits + 1) / 2, 1u << bits / 2, 1};
  return {1u << (bits + 2) / 3, 1u << (bits + 1) / 3, 1u << bits / 3};
}

bool spans_a_tile(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  const Extent tile = tile_extent(d);
  return d.Width >= tile.width && d.Height >= tile.height && (!is_volume(d) || d.Depth >= tile.depth);
}

// The first level of the mip tail: as many as there are levels if there is none.
size_t first_tail_level(const CUmipmappedArray_st& mipmapped) {
  size_t level = 0;
  while (level < mipmapped.levels.size() && spans_a_tile(mipmapped.levels[level]->descriptor)) level++;
  return level;
}

// Of all layers together.
size_t tail_bytes(const CUmipmappedArray_st& mipmapped) {
  size_t sum = 0;
  for (size_t level = first_tail_level(mipmapped); level < mipmapped.levels.size(); level++) sum += mipmapped.levels[level]->size_bytes;
  return sum;
}

void describe(CUDA_ARRAY_SPARSE_PROPERTIES& out, const CUDA_ARRAY3D_DESCRIPTOR& d) {
  const Extent tile = tile_extent(d);
  out = {};
  out.tileExtent.width = tile.width;
  out.tileExtent.height = tile.height;
  out.tileExtent.depth = tile.depth;
}

// The array or mipmapped array that an operation names.
struct Target {
  CUmipmappedArray mipmapped = nullptr;  // null: an array
  const CUarray_st* first_level = nullptr;
  TileMap* tiles = nullptr;
};

CUresult find_target(const CUarrayMapInfo& info, Target& target) {
  if (info.resourceType == CU_RESOURCE_TYPE_ARRAY) {
    CUarray array = info.resource.array;
    if (is_level(array)) return CUDA_ERROR_INVALID_VALUE;
    if (!machine().arrays.contains(array)) return CUDA_ERROR_INVALID_HANDLE;
    target = {nullptr, array, &array->tiles};
  } else if (info.resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
    CUmipmappedArray mipmapped = info.resource.mipmap;
    if (!machine().mipmapped_arrays.contains(mipmapped)) return CUDA_ERROR_INVALID_HANDLE;
    target = {mipmapped, mipmapped->levels[0].get(), &mipmapped->tiles};
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUDA_ARRAY3D_DESCRIPTOR& d = target.first_level->descriptor;
  return d.Height != 0 && (is_deferred(d) || is_sparse(d)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Whole tiles along one axis, of which the last may stick out of the level?
bool fits(unsigned offset, unsigned extent, size_t whole, unsigned tile) {
  const size_t end = size_t{offset} + extent;
  return extent != 0 && offset % tile == 0 && end <= whole && (extent % tile == 0 || end == whole);
}

bool select_level(const Target& target, const CUarrayMapInfo& info, std::vector<Tile>& tiles) {
  const auto& region = info.subresource.sparseLevel;
  const size_t level_count = target.mipmapped != nullptr ? first_tail_level(*target.mipmapped) : 1;
  if (region.level >= level_count) return false;
  const CUarray_st& level = target.mipmapped != nullptr ? *target.mipmapped->levels[region.level] : *target.first_level;
  const CUDA_ARRAY3D_DESCRIPTOR& d = level.descriptor;
  if (region.layer >= (is_layered(d) ? d.Depth : 1)) return false;
  const Extent tile = tile_extent(d);
  if (!fits(region.offsetX, region.extentWidth, d.Width, tile.width) || !fits(region.offsetY, region.extentHeight, d.Height, tile.height) ||
      !fits(region.offsetZ, region.extentDepth, is_volume(d) ? d.Depth : 1, tile.depth))
    return false;
  for (unsigned z = region.offsetZ; z < region.offsetZ + region.extentDepth; z += tile.depth)
    for (unsigned y = region.offsetY; y < region.offsetY + region.extentHeight; y += tile.height)
      for (unsigned x = region.offsetX; x < region.offsetX + region.extentWidth; x += tile.width)
        tiles.push_back({region.level, region.layer, x, y, z});
  return true;
}

bool select_tail(const Target& target, const CUarrayMapInfo& info, std::vector<Tile>& tiles) {
  const auto& region = info.subresource.miptail;
  if (target.mipmapped == nullptr || region.layer != 0 || region.size == 0) return false;
  if (region.offset % kTileBytes != 0 || region.size % kTileBytes != 0) return false;
  const size_t whole = tail_bytes(*target.mipmapped);
  if (region.offset > whole || region.size > whole - region.offset) return false;
  for (size_t i = 0; i < region.size / kTileBytes; i++)
    tiles.push_back({kTail, 0, static_cast<unsigned>(region.offset / kTileBytes + i), 0, 0});
  return true;
}

struct Operation {
  TileMap* target = nullptr;
  std::vector<Tile> tiles;
  std::shared_ptr<Physical> physical;  // null: unmap
};

CUresult select_tiles(const CUarrayMapInfo& info, Operation& operation, size_t& size_bytes) {
  Target target;
  if (CUresult error = find_target(info, target)) return error;
  operation.target = target.tiles;
  if (is_deferred(target.first_level->descriptor)) {
    operation.tiles = {Tile{}};
    size_bytes = target.mipmapped != nullptr ? target.mipmapped->size_bytes : target.first_level->size_bytes;
    return CUDA_SUCCESS;
  }
  const bool tail = info.subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
  const bool valid = tail ? select_tail(target, info, operation.tiles) : select_level(target, info, operation.tiles);
  size_bytes = operation.tiles.size() * kTileBytes;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult select_memory(const CUarrayMapInfo& info, int device, size_t size_bytes, std::shared_ptr<Physical>& out) {
  const CUmemGenericAllocationHandle handle = info.memHandle.memHandle;
  if (info.memOperationType == CU_MEM_OPERATION_TYPE_UNMAP) return handle == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (info.memOperationType != CU_MEM_OPERATION_TYPE_MAP) return CUDA_ERROR_INVALID_VALUE;
  if (info.memHandleType != CU_MEM_HANDLE_TYPE_GENERIC) return CUDA_ERROR_INVALID_VALUE;
  out = find_physical(handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUmemAllocationProp& properties = out->properties;
  if ((properties.allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL) == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!on_device(properties) || properties.location.id != device) return CUDA_ERROR_INVALID_VALUE;
  const bool inside = info.offset <= out->size_bytes && size_bytes <= out->size_bytes - info.offset;
  return inside ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult understand(const CUarrayMapInfo& info, int device, Operation& operation) {
  size_t size_bytes = 0;
  if (info.flags != 0 || info.reserved[0] != 0 || info.reserved[1] != 0) return CUDA_ERROR_INVALID_VALUE;
  if (std::popcount(info.deviceBitMask) != 1 || std::countr_zero(info.deviceBitMask) != device) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = select_tiles(info, operation, size_bytes)) return error;
  return select_memory(info, device, size_bytes, operation.physical);
}

void perform(const Operation& operation) {
  for (const Tile& tile : operation.tiles) {
    if (operation.physical != nullptr) (*operation.target)[tile] = operation.physical;
    else operation.target->erase(tile);
  }
}

}  // namespace
}  // namespace sim

using namespace sim;

// All of the list or nothing.
CUresult cuMemMapArrayAsync(CUarrayMapInfo* list, unsigned int count, CUstream handle) {
  return context_call(__func__, [&](CUctx_st& context) {
    CUstream stream = find_stream(context, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (list == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capturing()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    std::vector<Operation> operations(count);
    for (unsigned i = 0; i < count; i++)
      if (CUresult error = understand(list[i], stream->context->device, operations[i])) return error;
    for (const Operation& operation : operations) perform(operation);
    return CUDA_SUCCESS;
  });
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out, CUarray array) {
  return driver_call(__func__, [&] {
    if (out == nullptr || !machine().arrays.contains(array) || !is_sparse(array->descriptor)) return CUDA_ERROR_INVALID_VALUE;
    describe(*out, array->descriptor);
    return CUDA_SUCCESS;
  });
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out, CUmipmappedArray mipmapped) {
  return driver_call(__func__, [&] {
    if (out == nullptr || !machine().mipmapped_arrays.contains(mipmapped)) return CUDA_ERROR_INVALID_VALUE;
    if (!is_sparse(mipmapped->levels[0]->descriptor)) return CUDA_ERROR_INVALID_VALUE;
    describe(*out, mipmapped->levels[0]->descriptor);
    out->miptailFirstLevel = static_cast<unsigned>(first_tail_level(*mipmapped));
    out->miptailSize = tail_bytes(*mipmapped);
    out->flags = CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL;
    return CUDA_SUCCESS;
  });
}

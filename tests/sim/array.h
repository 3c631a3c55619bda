// What does an array look like before it has memory? Used under the machine's lock.
#pragma once

#include "handles.h"

namespace sim {

constexpr size_t kTileBytes = 64 << 10;  // real arrays take whole tiles

bool valid(const CUDA_ARRAY3D_DESCRIPTOR& descriptor);

// Depth is a number of layers.
inline bool is_layered(const CUDA_ARRAY3D_DESCRIPTOR& d) { return (d.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0; }
// Memory is mapped to all of such an array later, or piece by piece.
inline bool is_deferred(const CUDA_ARRAY3D_DESCRIPTOR& d) { return (d.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING) != 0; }
inline bool is_sparse(const CUDA_ARRAY3D_DESCRIPTOR& d) { return (d.Flags & CUDA_ARRAY3D_SPARSE) != 0; }

size_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR& descriptor);

// Of one array or level, without what it takes to fill whole tiles.
size_t packed_bytes(const CUDA_ARRAY3D_DESCRIPTOR& descriptor);

// All levels of a mipmapped array, null if there is no such array.
std::unique_ptr<CUmipmappedArray_st> describe_levels(CUcontext context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor,
                                                     unsigned level_count);

// Is it a level of a mipmapped array rather than an array of its own?
bool is_level(CUarray array);

}  // namespace sim

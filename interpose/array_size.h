// How many bytes does a CUDA array take? What the driver would tell only for arrays that have no memory of their own.
//
// cuArrayGetMemoryRequirements refuses every array that was not made with CUDA_ARRAY3D_DEFERRED_MAPPING (cuda.h says so), so
// the size is computed: texels times their bits. The driver's padding is not known and not counted.
#pragma once

#include <cstdint>

namespace vramtrack {

struct ArrayShape {
  uint64_t width, height, depth;  // elements; 0 = no such dimension
  uint32_t format;                // CUarray_format
  uint32_t channels;
  uint32_t flags;                 // CUDA_ARRAY3D_*
};

// Of the driver's descriptors: both generations have these fields, in 32 and in 64 bits.
template <typename Descriptor>
ArrayShape shape_of(const Descriptor* array) {
  if (!array) return {};
  ArrayShape shape{array->Width, array->Height, 1, array->Format, array->NumChannels, 0};
  if constexpr (requires { array->Depth; }) {
    shape.depth = array->Depth;
    shape.flags = array->Flags;
  }
  return shape;
}

// 0 for sparse arrays and for those whose mapping is deferred: memory is mapped into them later, and is another allocation's.
uint64_t array_bytes(const ArrayShape&);

// All levels together. `levels` beyond the smallest one take nothing.
uint64_t mipmapped_array_bytes(const ArrayShape&, uint32_t levels);

}  // namespace vramtrack

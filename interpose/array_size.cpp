// How many bytes does a CUDA array take? See array_size.h.
//
// Formats and flags are written as numbers, from CUDA 13.0's cuda.h: older headers do not name them all.
#include "interpose/array_size.h"

#include <algorithm>

namespace vramtrack {
namespace {

constexpr uint32_t kLayered = 0x01, kCubemap = 0x04, kSparse = 0x40, kDeferredMapping = 0x80;

struct FormatBits {
  uint8_t first, last;  // CUarray_format
  uint8_t bits;         // of one channel, or of a whole texel
  bool whole_texel;     // the format fixes the channels
};

constexpr FormatBits kFormats[] = {
    {0x01, 0x01, 8, false},  {0x02, 0x02, 16, false}, {0x03, 0x03, 32, false},  // unsigned
    {0x08, 0x08, 8, false},  {0x09, 0x09, 16, false}, {0x0a, 0x0a, 32, false},  // signed
    {0x10, 0x10, 16, false}, {0x20, 0x20, 32, false},                           // half, float
    {0x50, 0x50, 32, true},                                                     // 10-10-10-2
    {0x91, 0x92, 4, true},   {0x93, 0x96, 8, true},   {0x97, 0x98, 4, true},    // BC1, BC2-BC3, BC4
    {0x99, 0x9e, 8, true},                                                      // BC5-BC7
    {0x9f, 0xa1, 24, true},  {0xa2, 0xa2, 16, true},  {0xa3, 0xa4, 32, true},   // P010, P016; NV16; P210, P216
    {0xa5, 0xa5, 16, true},  {0xa6, 0xa7, 32, true},  {0xa8, 0xa9, 32, true},   // YUY2; Y210, Y216; AYUV, Y410
    {0xb0, 0xb0, 12, true},  {0xb1, 0xb1, 64, true},                            // NV12, Y416
    {0xb2, 0xb2, 24, true},  {0xb3, 0xb3, 48, true},  {0xb4, 0xb4, 24, true},   // planar and semi-planar 4:4:4
    {0xb5, 0xb5, 48, true},
    {0xc0, 0xc0, 8, true},   {0xc1, 0xc1, 16, true},  {0xc2, 0xc2, 32, true},   // normalized, unsigned
    {0xc3, 0xc3, 16, true},  {0xc4, 0xc4, 32, true},  {0xc5, 0xc5, 64, true},
    {0xc6, 0xc6, 8, true},   {0xc7, 0xc7, 16, true},  {0xc8, 0xc8, 32, true},   // normalized, signed
    {0xc9, 0xc9, 16, true},  {0xca, 0xca, 32, true},  {0xcb, 0xcb, 64, true},
};

uint64_t texel_bits(const ArrayShape& shape) {
  for (const FormatBits& format : kFormats) {
    if (shape.format < format.first || shape.format > format.last) continue;
    return format.whole_texel ? format.bits : uint64_t{format.bits} * shape.channels;
  }
  return uint64_t{8} * shape.channels;  // a format newer than this table: the least it can be
}

uint64_t dimension(uint64_t extent) { return std::max<uint64_t>(extent, 1); }

}  // namespace

uint64_t array_bytes(const ArrayShape& shape) {
  if (shape.flags & (kSparse | kDeferredMapping)) return 0;
  const uint64_t texels = dimension(shape.width) * dimension(shape.height) * dimension(shape.depth);
  return (texels * texel_bits(shape) + 7) / 8;
}

uint64_t mipmapped_array_bytes(const ArrayShape& shape, uint32_t levels) {
  const bool depth_is_layers = shape.flags & (kLayered | kCubemap);
  ArrayShape level = shape;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < levels; ++i) {
    bytes += array_bytes(level);
    const bool smallest = level.width <= 1 && level.height <= 1 && (depth_is_layers || level.depth <= 1);
    if (smallest) break;
    level.width /= 2;
    level.height /= 2;
    if (!depth_is_layers) level.depth /= 2;
  }
  return bytes;
}

}  // namespace vramtrack

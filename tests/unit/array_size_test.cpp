#include "interpose/array_size.h"

#include <gtest/gtest.h>

using vramtrack::array_bytes;
using vramtrack::mipmapped_array_bytes;

namespace {

TEST(ArraySize, missing_dimensions_count_as_one) {
  EXPECT_EQ(array_bytes({16, 0, 0, 0x20, 1, 0}), 64u);
  EXPECT_EQ(array_bytes({16, 8, 2, 0x10, 4, 0}), 2048u);
}

TEST(ArraySize, block_compressed_and_planar_formats_have_their_own_bits) {
  EXPECT_EQ(array_bytes({16, 16, 0, 0x91, 4, 0}), 128u);  // BC1: half a byte a texel
  EXPECT_EQ(array_bytes({16, 16, 0, 0x9d, 4, 0}), 256u);  // BC7: one byte
  EXPECT_EQ(array_bytes({16, 16, 0, 0xb0, 3, 0}), 384u);  // NV12: a byte and a half
  EXPECT_EQ(array_bytes({16, 16, 0, 0xc5, 4, 0}), 2048u);
}

TEST(ArraySize, unknown_format_is_at_least_a_byte_a_channel) { EXPECT_EQ(array_bytes({10, 0, 0, 0x7777, 2, 0}), 20u); }

TEST(ArraySize, sparse_and_deferred_arrays_own_no_memory) {
  EXPECT_EQ(array_bytes({16, 16, 0, 0x20, 4, 0x40}), 0u);
  EXPECT_EQ(array_bytes({16, 16, 0, 0x20, 4, 0x80}), 0u);
}

TEST(ArraySize, levels_halve_until_one_texel) {
  EXPECT_EQ(mipmapped_array_bytes({4, 4, 0, 0x01, 1, 0}, 1), 16u);
  EXPECT_EQ(mipmapped_array_bytes({4, 4, 0, 0x01, 1, 0}, 99), 16u + 4 + 1);
  EXPECT_EQ(mipmapped_array_bytes({4, 4, 4, 0x01, 1, 0}, 3), 64u + 8 + 1);
}

TEST(ArraySize, layers_do_not_halve) { EXPECT_EQ(mipmapped_array_bytes({4, 4, 6, 0x01, 1, 0x01}, 3), 6 * (16u + 4 + 1)); }

}  // namespace

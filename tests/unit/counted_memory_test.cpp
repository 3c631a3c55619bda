// Is a piece of counted memory known until the last of its handles and mappings is gone, whatever the order?
#include "interpose/counted_memory.h"

#include <gtest/gtest.h>

namespace vramtrack {
namespace {

bool is_gone(const References& now) { return now.piece && !now.references && !now.mappings; }

References release(CountedMemory& shared, uint64_t handle) {
  const uint32_t piece = take_reference(shared, handle);
  return piece ? give_up_reference(shared, handle, piece) : References{};
}

struct CountedMemoryTest : testing::Test {
  CountedMemory shared = {};
  const uint32_t piece = add_piece(shared, format::Kind::kPhysical, 100);
  References unmap(uint64_t address, uint64_t size) {
    References last = {};
    for (uint32_t mapping = take_mappings(shared, address, size); mapping;) mapping = give_up_mapping(shared, mapping, last);
    return last;
  }
};

TEST_F(CountedMemoryTest, release_before_unmap_and_after) {
  add_mapping(shared, 0x1000, 0x1000, 100);
  EXPECT_FALSE(is_gone(release(shared, 100)));
  EXPECT_TRUE(is_gone(unmap(0x1000, 0x1000)));
  add_piece(shared, format::Kind::kPhysical, 200);
  add_mapping(shared, 0x1000, 0x1000, 200);
  EXPECT_FALSE(is_gone(unmap(0x1000, 0x1000)));
  EXPECT_TRUE(is_gone(release(shared, 200)));
}

TEST_F(CountedMemoryTest, several_references_come_and_go_at_once) {
  EXPECT_EQ(add_references(shared, 100, 3).references, 4u);
  EXPECT_EQ(drop_references(shared, 100, 3).references, 1u);
  EXPECT_TRUE(is_gone(drop_references(shared, 100, 5))) << "more than there are";
  EXPECT_EQ(drop_references(shared, 100, 1).piece, 0u) << "it is known no more";
}

TEST_F(CountedMemoryTest, what_is_mapped_can_be_mapped_elsewhere_by_its_address) {
  add_mapping(shared, 0x1000, 0x1000, 100);
  EXPECT_EQ(add_mapping_of(shared, 0x9000, 0x1000, 0x1800, 0).mappings, 2u);
  EXPECT_EQ(add_mapping_of(shared, 0xa000, 0x1000, 0x5000, 0).piece, 0u) << "nothing is there";
  release(shared, 100);
  unmap(0x1000, 0x1000);
  EXPECT_TRUE(is_gone(unmap(0x9000, 0x1000)));
}

TEST_F(CountedMemoryTest, what_is_bound_to_an_object_goes_with_it) {
  add_mapping(shared, 1ull << 63, 1, 100, 7);
  add_mapping(shared, 1ull << 63 | 1, 1, 100, 8);
  release(shared, 100);
  References last = {};
  for (uint32_t mapping = take_mappings_of(shared, 7); mapping;) mapping = give_up_mapping(shared, mapping, last);
  EXPECT_EQ(last.mappings, 1u);
  for (uint32_t mapping = take_mappings_of(shared, 8); mapping;) mapping = give_up_mapping(shared, mapping, last);
  EXPECT_TRUE(is_gone(last));
  EXPECT_EQ(take_mappings_of(shared, 8), 0u);
}

TEST_F(CountedMemoryTest, a_piece_tells_its_kind) {
  add_piece(shared, format::Kind::kMulticast, 200);
  EXPECT_EQ(add_references(shared, 200).kind, format::Kind::kMulticast);
  EXPECT_EQ(add_references(shared, 100).kind, format::Kind::kPhysical);
}

TEST_F(CountedMemoryTest, a_handle_that_was_released_may_be_anothers_while_the_mapping_lives) {
  add_mapping(shared, 0x1000, 0x1000, 100);
  release(shared, 100);
  const uint32_t other = add_piece(shared, format::Kind::kPhysical, 100);
  EXPECT_NE(other, piece);
  EXPECT_EQ(unmap(0x1000, 0x1000).piece, piece);
  EXPECT_TRUE(is_gone(release(shared, 100)));
}

TEST_F(CountedMemoryTest, each_retain_wants_its_release) {
  add_mapping(shared, 0x1000, 0x1000, 100);
  EXPECT_EQ(add_reference_at(shared, 0x1fff, 100).references, 2u);
  EXPECT_EQ(add_reference_at(shared, 0x2000, 100).piece, 0u);  // beyond it
  unmap(0x1000, 0x1000);
  EXPECT_FALSE(is_gone(release(shared, 100)));
  EXPECT_TRUE(is_gone(release(shared, 100)));
  EXPECT_EQ(release(shared, 100).piece, 0u);
}

TEST_F(CountedMemoryTest, a_second_name_leads_nowhere_once_the_piece_is_gone) {
  add_mapping(shared, 0x1000, 0x1000, 100);
  EXPECT_EQ(add_reference_at(shared, 0x1000, 101).references, 2u);
  release(shared, 100);
  EXPECT_EQ(drop_handle(shared, 100).piece, 0u);  // given out anew while 101 keeps the piece
  const uint32_t other = add_piece(shared, format::Kind::kPhysical, 100);
  unmap(0x1000, 0x1000);
  EXPECT_TRUE(is_gone(release(shared, 101)));
  forget_piece(shared, piece);
  EXPECT_EQ(add_piece(shared, format::Kind::kPhysical, 200), piece);  // its number is another's
  EXPECT_EQ(add_references(shared, 101).piece, 0u);
  EXPECT_EQ(add_references(shared, 100).piece, other);
}

TEST_F(CountedMemoryTest, several_mappings_go_at_once_up_to_a_gap) {
  add_piece(shared, format::Kind::kPhysical, 200);
  add_mapping(shared, 0x1000, 0x1000, 100);
  add_mapping(shared, 0x2000, 0x1000, 200);
  add_mapping(shared, 0x4000, 0x1000, 200);
  EXPECT_EQ(unmap(0x1000, 0x3000).mappings, 1u);  // of 200: that beyond the gap
  EXPECT_TRUE(is_gone(release(shared, 100)));
  EXPECT_FALSE(is_gone(release(shared, 200)));
  EXPECT_TRUE(is_gone(unmap(0x4000, 0x1000)));
}

TEST_F(CountedMemoryTest, what_the_driver_refuses_comes_back) {
  add_mapping(shared, 0x1000, 0x1000, 100);
  put_back_reference(shared, 100, take_reference(shared, 100));
  put_back_mappings(shared, take_mappings(shared, 0x1000, 0x1000));
  EXPECT_FALSE(is_gone(release(shared, 100)));
  EXPECT_TRUE(is_gone(unmap(0x1000, 0x1000)));
}

TEST_F(CountedMemoryTest, what_a_context_takes_along_is_unknown_afterwards) {
  add_piece(shared, format::Kind::kPhysical, 200, 1, 0xc0);
  add_piece(shared, format::Kind::kPhysical, 300, 1, 0xc1);
  forget_pieces_of(shared, -1, 0xc0);
  EXPECT_EQ(add_references(shared, 200).piece, 0u);
  EXPECT_EQ(add_references(shared, 300).references, 2u);
  forget_pieces_of(shared, 1, 0);
  EXPECT_EQ(add_references(shared, 300).piece, 0u);
  EXPECT_EQ(add_references(shared, 100).piece, piece);  // outlives contexts
}

TEST_F(CountedMemoryTest, numbers_are_used_again_when_nothing_refers_to_them) {
  forget_piece(shared, piece);
  EXPECT_NE(add_piece(shared, format::Kind::kPhysical, 200), piece);  // 100 still refers to it
  release(shared, 100);
  forget_piece(shared, piece);
  EXPECT_EQ(add_piece(shared, format::Kind::kPhysical, 300), piece);
}

}  // namespace
}  // namespace vramtrack

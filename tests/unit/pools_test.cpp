// Is what a pool holds asked for often enough and not too often, and what was in use between two answers not forgotten?
#include "interpose/pools.h"

#include <gtest/gtest.h>

#include "tests/unit/scratch_capture.h"

namespace vramtrack {
namespace {

using format::Pool;

constexpr uint64_t kKey = 7;

struct PoolsTest : testing::Test {
  ScratchCapture capture;
  Pools pools = {};
  PoolsTest() { add_pool(pools, capture.file(), kKey, 2, false); }
  PoolSlot& slot() { return *find_pool(pools, kKey); }
  Pool& record() { return capture.at<Pool>(format::kPools, slot().record); }
  void sample(uint64_t reserved, uint64_t used, uint32_t ms) { add_sample(pools, capture.file(), kKey, reserved, used, ms); }
};

TEST_F(PoolsTest, a_pool_is_known_until_it_is_destroyed) {
  EXPECT_EQ(slot().device, 2);
  EXPECT_EQ(record().handle, kKey);
  Pool& pool = record();
  remove_pool(pools, capture.file(), kKey);
  EXPECT_EQ(find_pool(pools, kKey), nullptr);
  EXPECT_EQ(pool.destroyed, 1);
}

TEST_F(PoolsTest, its_handle_may_be_anothers_later) {
  remove_pool(pools, capture.file(), kKey);
  add_pool(pools, capture.file(), kKey, 1, false);
  EXPECT_EQ(slot().device, 1);
  EXPECT_EQ(capture.count(format::kPools), 3u) << "the first is remembered";
}

TEST_F(PoolsTest, the_first_answers_are_wanted_each_time_and_later_ones_now_and_then) {
  for (uint32_t i = 0; i < 64; ++i) {
    ASSERT_TRUE(is_due(slot(), 5)) << i;
    EXPECT_FALSE(is_due(slot(), 5)) << "another thread asks already";
    sample(100, 50, 5);
  }
  EXPECT_FALSE(is_due(slot(), 6));
  EXPECT_TRUE(is_due(slot(), 205));
}

TEST_F(PoolsTest, another_processs_pool_is_never_asked) {
  add_pool(pools, capture.file(), 8, 0, true);
  EXPECT_FALSE(is_due(*find_pool(pools, 8), 5));
}

TEST_F(PoolsTest, what_was_in_use_between_two_answers_was_not_idle) {
  sample(1000, 0, 1);
  note_use(slot(), 900);
  note_use(slot(), -900);
  sample(1000, 0, 2);
  sample(1000, 0, 3);
  EXPECT_EQ(record().point[0].idle_min, 1000u);
  EXPECT_EQ(record().point[1].idle_min, 100u);
  EXPECT_EQ(record().point[2].idle_min, 1000u) << "that was before";
}

TEST_F(PoolsTest, points_merge_to_the_least_idle) {
  for (uint32_t i = 0; i < 1000; ++i) sample(1000 + i, i == 500 ? 900 : 0, i);
  const Pool& pool = record();
  const uint32_t last = (pool.samples - 1) >> pool.scale;
  ASSERT_LT(last, format::kPoolPoints);
  EXPECT_EQ(pool.reserved, 1999u);
  EXPECT_EQ(pool.peak_reserved, 1999u);
  EXPECT_EQ(pool.point[500 >> pool.scale].idle_min, 600u);
  EXPECT_EQ(pool.point[500 >> pool.scale].used_max, 900u);
  EXPECT_EQ(pool.point[last].time_ms, 999u);
}

TEST_F(PoolsTest, more_than_there_is_room_for_are_not_followed) {
  for (uint64_t key = 100; key < 100 + kMaxPools; ++key) add_pool(pools, capture.file(), key, 0, false);
  EXPECT_TRUE(pools.overflown.load());
  EXPECT_EQ(find_pool(pools, 100 + kMaxPools - 1), nullptr);
}

}  // namespace
}  // namespace vramtrack

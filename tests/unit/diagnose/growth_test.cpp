// The shape of a floor's curve.
#include <gtest/gtest.h>

#include <cmath>

#include "report/diagnose/growth.h"

namespace vramtrack {
namespace {

template <typename Level>
Shape shape_of(int points, Level level) {
  Curve curve;
  for (int i = 0; i < points; ++i) curve.floor.push_back(level(i));
  return growth_of(curve).shape;
}

TEST(growth, a_line_rises) {
  EXPECT_EQ(shape_of(64, [](int i) { return 10.0 * i; }), Shape::kRising);
  EXPECT_EQ(shape_of(6, [](int i) { return 10.0 * i; }), Shape::kRising);
}
TEST(growth, a_line_on_a_plateau_rises) { EXPECT_EQ(shape_of(64, [](int i) { return 1000 + 10.0 * i; }), Shape::kRising); }
TEST(growth, a_staircase_rises) { EXPECT_EQ(shape_of(60, [](int i) { return 1.0 + i / 12; }), Shape::kRising); }
TEST(growth, a_line_with_teeth_rises) { EXPECT_EQ(shape_of(64, [](int i) { return 10.0 * i + i % 8 * 20; }), Shape::kRising); }
TEST(growth, a_line_that_falls_at_the_end_rises) {
  EXPECT_EQ(shape_of(64, [](int i) { return i == 63 ? 0 : 10.0 * i; }), Shape::kRising);
}
TEST(growth, a_late_line_rises) { EXPECT_EQ(shape_of(64, [](int i) { return 100.0 + std::max(0, i - 45) * 10; }), Shape::kRising); }
TEST(growth, a_constant_is_flat) { EXPECT_EQ(shape_of(64, [](int) { return 5.0; }), Shape::kFlat); }
TEST(growth, nothing_is_flat) {
  EXPECT_EQ(shape_of(0, [](int) { return 0.0; }), Shape::kFlat);
  EXPECT_EQ(shape_of(64, [](int) { return 0.0; }), Shape::kFlat);
}
TEST(growth, jitter_is_flat) { EXPECT_EQ(shape_of(64, [](int i) { return 100.0 + i * 7 % 3; }), Shape::kFlat); }
TEST(growth, a_step_settles) { EXPECT_EQ(shape_of(64, [](int i) { return i < 3 ? 1.0 : 9.0; }), Shape::kSettled); }
TEST(growth, a_ramp_to_a_plateau_settles) { EXPECT_EQ(shape_of(64, [](int i) { return 10.0 * std::min(i, 30); }), Shape::kSettled); }
TEST(growth, a_slowing_rise_settles) { EXPECT_EQ(shape_of(64, [](int i) { return 1 - std::exp(-i / 8.0); }), Shape::kSettled); }
TEST(growth, teeth_are_a_saw) { EXPECT_EQ(shape_of(64, [](int i) { return i % 8 * 10.0; }), Shape::kSawTooth); }
TEST(growth, an_unfinished_tooth_is_a_saw) { EXPECT_EQ(shape_of(60, [](int i) { return i % 25 * 10.0; }), Shape::kSawTooth); }
TEST(growth, noise_that_falls_as_far_as_it_rose_is_a_saw) {
  EXPECT_NE(shape_of(64, [](int i) { return i % 9 * 10.0 + i * 0.5; }), Shape::kRising);
}
TEST(growth, two_teeth_are_a_saw) { EXPECT_EQ(shape_of(51, [](int i) { return i == 50 ? 0 : i % 25 * 10.0; }), Shape::kSawTooth); }

}  // namespace
}  // namespace vramtrack

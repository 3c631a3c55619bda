// How a quantity went over a run of any length in a fixed number of points: floors of a site, extremes of a space.
//
// When the points run out, neighbours are merged and each covers twice as much. Nothing is ever scanned: an event touches one
// point, and a site that was idle catches up when it is next touched.
#pragma once

#include <cstdint>

#include "interpose/capture_format.h"

namespace vramtrack {

// Brings the space's clock to the present, before an event: `iterations` have begun as `clock` counts them.
//
// A window is an iteration. A program may stop training and go on: then as many allocations as several of its longest iterations
// made are a window as well, so that what it does from there on is still seen over time.
inline void advance_clock(format::Space& space, format::Clock clock, uint32_t iterations) {
  constexpr uint64_t kLongestWindows = 8, kFewAllocations = 16;
  constexpr uint64_t kLongIteration = 8192;  // allocations: the first one is hardly longer, and no measure yet
  if (clock == format::Clock::kAllocations) {
    space.windows = space.allocations;
    return;
  }
  if (space.clock != clock) [[unlikely]] {
    if (space.clock == format::Clock::kAllocations) space.windows = 0;  // what came before was warm-up
    space.clock = clock;
  } else if (iterations > space.iterations_seen) {  // a thread that looked before another may come after it, and knows fewer
    const uint64_t allocations = space.allocations - space.window_begin;
    if (allocations > space.longest_window) space.longest_window = allocations;
    space.windows += iterations - space.iterations_seen;
  } else {
    const uint64_t longest = space.longest_window > kFewAllocations ? space.longest_window : kFewAllocations;
    const uint64_t most = space.longest_window ? kLongestWindows * longest : kLongIteration;
    if (space.allocations - space.window_begin <= most) [[likely]] return;
    space.windows++;
    iterations = space.iterations_seen;
  }
  space.iterations_seen = iterations;
  space.window_begin = space.allocations;
}

// Brings the curve to the space's window before the site's live bytes change; `live` is what they were in all windows since the
// change before.
inline void advance(format::Curve& curve, const format::Space& space, uint64_t live) {
  using format::kCurvePoints;
  const auto value = static_cast<float>(live);
  const uint64_t now = space.windows;
  float& last_floor = curve.floor[curve.last_window];
  if (value < last_floor) last_floor = value;
  if (space.clock != format::Clock::kAllocations && !curve.by_iteration) {
    curve.by_iteration = 1;
    curve.scale = 0;
    curve.last_window = 0;
    curve.floor[0] = value;
  }
  while ((now >> curve.scale) >= kCurvePoints) {
    for (uint32_t i = curve.last_window + 1; i < kCurvePoints; i++) curve.floor[i] = value;
    for (uint32_t i = 0; i < kCurvePoints / 2; i++) {
      const float a = curve.floor[2 * i], b = curve.floor[2 * i + 1];
      curve.floor[i] = a < b ? a : b;
    }
    curve.last_window /= 2;
    curve.scale++;
  }
  const auto point = static_cast<uint32_t>(now >> curve.scale);
  while (curve.last_window < point) curve.floor[++curve.last_window] = value;
}

inline void merge(format::SeriesPoint& into, const format::SeriesPoint& later) {
  if (later.live_min < into.live_min) into.live_min = later.live_min;
  if (later.live_max > into.live_max) into.live_max = later.live_max;
  if (later.reserved_max > into.reserved_max) into.reserved_max = later.reserved_max;
  into.time_ms = later.time_ms;
  into.step = later.step;
}

// Adds the space's present state, `event` being the number of events before this one.
inline void note_series(format::Space& space, uint64_t event, uint32_t time_ms, uint32_t step) {
  using format::kSeriesPoints;
  while ((event >> space.series_scale) >= kSeriesPoints) {
    for (uint32_t i = 0; i < kSeriesPoints / 2; i++) {
      space.series[i] = space.series[2 * i];
      merge(space.series[i], space.series[2 * i + 1]);
    }
    space.series_count = (space.series_count + 1) / 2;
    space.series_scale++;
  }
  const auto point = static_cast<uint32_t>(event >> space.series_scale);
  const format::SeriesPoint now{space.live_bytes, space.live_bytes, space.reserved_bytes, time_ms, step};
  if (point >= space.series_count) {
    space.series[point] = now;
    space.series_count = point + 1;
  } else {
    merge(space.series[point], now);
  }
}

}  // namespace vramtrack

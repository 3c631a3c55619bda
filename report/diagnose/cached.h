// How a caching allocator's memory went over the run: what it held, and how much of that was in use.
#pragma once

#include <span>

#include "report/heap.h"

namespace vramtrack {

// The points of a space's series while its program worked, from this share of the time on.
std::span<const SeriesPoint> working_points(const Heap&, const Space&, double from_share);

// Held, but in no block, at a moment.
inline uint64_t unused(const SeriesPoint& at) { return at.reserved_max - (at.live_max < at.reserved_max ? at.live_max : at.reserved_max); }

}  // namespace vramtrack

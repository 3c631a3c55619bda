// What shape has the growth of a site? See growth.h.
#include "report/diagnose/growth.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace vramtrack {
namespace {

constexpr size_t kFewestPoints = 5;      // fewer windows tell no shape
constexpr double kNoise = 0.04;          // of the highest floor: smaller movements are jitter of window borders
constexpr double kDeepFall = 0.25;       // of the highest floor: a fall that gives memory back, not jitter
constexpr double kEndOfRun = 1.0 / 16;   // a fall within the last sixteenth is the program's end
constexpr double kStillShare = 0.2;      // still for this share of the run: the rise is over,
constexpr double kStillOverPause = 1.7;  // unless it paused nearly as long between two rises (a staircase by epochs)
constexpr int kFewestRises = 3;          // twice more than at first is chance
constexpr double kSlowing = 0.2;         // second half of the rise below this share of the first: it will settle
constexpr int kLateRises = 8;            // a rise seen in the last part of the run only needs more points to be believed
constexpr double kLatePart = 0.6;
constexpr int kManyFalls = 2;
constexpr int kManyRises = 8;
constexpr double kSlowingOfMany = 0.5;   // with so many rises a cache that fills up shows by half the rate
constexpr double kRestsSince = 0.75;     // of the allocations: the number of blocks has not risen since
constexpr double kPoolFrees = 0.25;      // of the allocations, at least: its members come and go
constexpr double kGivenBack = 0.5;       // of the most it held: more at the end was not given back by it
constexpr uint64_t kFewestInPool = 3;    // one or two blocks that are replaced are no pool

using Floors = std::span<const double>;

double highest(Floors floors) { return *std::max_element(floors.begin(), floors.end()); }

// The floors up to the program's end, without the fall that ends it.
Floors without_fall_at_end(Floors floors) {
  const auto top = std::max_element(floors.rbegin(), floors.rend());  // the last of the highest
  const size_t after_top = static_cast<size_t>(top - floors.rbegin());
  const size_t allowed = std::max<size_t>(1, static_cast<size_t>(std::ceil(floors.size() * kEndOfRun)));
  const bool fell = floors.back() < *top * (1 - kDeepFall);
  return fell && after_top <= allowed ? floors.first(floors.size() - after_top) : floors;
}

// What is never given back from each point on: the least floor from there to the end.
std::vector<double> kept_from(Floors floors) {
  std::vector<double> kept(floors.begin(), floors.end());
  for (size_t i = kept.size() - 1; i-- > 0;) kept[i] = std::min(kept[i], kept[i + 1]);
  return kept;
}

void count_falls(Floors floors, Growth& growth) {
  const double deep = highest(floors) * kDeepFall;
  double top = floors.front(), bottom = floors.front();
  bool falling = false;
  for (double floor : floors) {
    if (falling ? floor > bottom + deep : floor > top) {  // a new tooth, or higher on this one
      falling = false;
      top = floor;
    }
    if (!falling && floor < top - deep) {
      falling = true;
      ++growth.falls;
      bottom = floor;
    }
    if (falling) {
      bottom = std::min(bottom, floor);
      growth.amplitude = std::max(growth.amplitude, top - bottom);
    }
  }
}

// Where the kept bytes pass a share of the whole rise, as a point.
size_t passes(const std::vector<double>& kept, double share) {
  const double level = kept.front() + (kept.back() - kept.front()) * share;
  return static_cast<size_t>(std::lower_bound(kept.begin(), kept.end(), level) - kept.begin());
}

// Longest stretch without a rise between the first rise and the last, and their number.
size_t count_rises(const std::vector<double>& kept, Growth& growth, size_t& last_rise) {
  const double least = (kept.back() - kept.front()) * 0.002;
  size_t longest = 0, previous = 0;
  for (size_t i = 1; i < kept.size(); ++i) {
    if (kept[i] <= kept[i - 1] + least) continue;
    if (growth.rises++ > 0) longest = std::max(longest, i - previous);
    previous = last_rise = i;
  }
  return longest;
}

// A tooth that is still standing at the end looks like a rise: nothing was kept across the last deep fall.
bool is_last_tooth(Floors floors, const std::vector<double>& kept, const Growth& growth) {
  if (growth.falls == 0 || growth.amplitude < 0.5 * growth.bytes) return false;
  const double deep = highest(floors) * kDeepFall;
  size_t last_bottom = 0;
  double top = floors.front();
  for (size_t i = 0; i < floors.size(); ++i) {
    if (floors[i] < top - deep) last_bottom = i, top = floors[i];
    top = std::max(top, floors[i]);
  }
  return kept[last_bottom] - kept.front() < 0.25 * growth.bytes;
}

bool is_pool_at_rest(const Site& site) {
  const double allocations = static_cast<double>(site.allocations);
  return site.level_blocks >= kFewestInPool && static_cast<double>(site.level_allocations) < kRestsSince * allocations &&
         static_cast<double>(site.frees) >= kPoolFrees * allocations;
}

}  // namespace

Growth growth_of(const Site& site, bool ended_by_itself) {
  Growth growth = growth_of(site.curve, ended_by_itself);
  growth.fell_at_end &= static_cast<double>(site.end_bytes) < kGivenBack * static_cast<double>(site.max_live_bytes);
  if (growth.shape == Shape::kRising && is_pool_at_rest(site)) growth.shape = Shape::kSettled;
  return growth;
}

Growth growth_of(const Curve& curve, bool ended_by_itself) {
  Growth growth;
  if (curve.floor.size() < kFewestPoints) return growth;
  const Floors floors = ended_by_itself ? without_fall_at_end(curve.floor) : Floors(curve.floor);
  growth.fell_at_end = floors.size() < curve.floor.size();
  if (floors.size() < kFewestPoints || highest(floors) <= 0) return growth;
  count_falls(floors, growth);

  const std::vector<double> kept = kept_from(floors);
  growth.bytes = kept.back() - kept.front();
  if (growth.bytes <= kNoise * highest(floors)) {
    if (growth.falls > 0) growth.shape = Shape::kSawTooth;
    return growth;
  }
  const double points = static_cast<double>(floors.size() - 1);
  const size_t begin = passes(kept, 0.03), end = passes(kept, 0.98);
  growth.begin = std::max(0.0, (static_cast<double>(begin) - 1) / points);
  growth.end = static_cast<double>(end) / points;
  size_t last_rise = 0;
  const size_t pause = count_rises(kept, growth, last_rise);
  const double first_half = kept[(begin + end) / 2] - kept.front(), second_half = kept.back() - kept[(begin + end) / 2];
  growth.even = second_half > 0.5 * first_half && first_half > 0.5 * second_half;

  const bool falls_as_far_as_it_rose = growth.falls >= kManyFalls && growth.amplitude >= growth.bytes;
  if (falls_as_far_as_it_rose || is_last_tooth(floors, kept, growth)) {
    growth.shape = Shape::kSawTooth;
    return growth;
  }
  const size_t still = floors.size() - 1 - end;
  const bool settled = still >= kStillShare * points && still > kStillOverPause * static_cast<double>(pause);
  const bool slowing = second_half < (growth.rises >= kManyRises ? kSlowingOfMany : kSlowing) * first_half;
  const bool too_few = growth.rises < (growth.begin > kLatePart ? kLateRises : kFewestRises);
  growth.shape = settled || slowing ? Shape::kSettled : too_few ? Shape::kFlat : Shape::kRising;
  return growth;
}

}  // namespace vramtrack

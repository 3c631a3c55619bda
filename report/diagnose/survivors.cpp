// When were the survivors of a site born? See survivors.h.
#include "report/diagnose/survivors.h"

#include <algorithm>
#include <set>
#include <vector>

namespace vramtrack {
namespace {

constexpr double kLongUse = 0.2;          // seconds that the program went on after the last was made,
constexpr double kUsedOverMaking = 1;     // and at least as long as making them took: they were made for the run
constexpr double kInOneGo = 0.25;         // of both, where nothing else was made meanwhile
constexpr uint64_t kPairsToOneLive = 3;   // allocations for each block that is live at a time: more were not freed each time
constexpr double kLongMaking = 0.5;       // seconds
constexpr double kAllAlong = 0.8;         // of the run
constexpr double kEvenGaps = 1.35;        // ratio of long to short gaps up to which births follow one rhythm
constexpr double kWholeNumber = 0.1;      // distance from a multiple of the shortest gap: some iterations were left out
constexpr uint64_t kShortestRhythm = 3;  // every gap is a multiple of 1, and nearly one of 2
constexpr double kNearlyEveryStep = 0.8;
constexpr size_t kFewestLengthening = 12;
constexpr double kMostlyLonger = 0.9;     // of the gaps are as long as the one before, or longer
constexpr uint64_t kClearlyLonger = 2;    // times, late ones than early ones

std::vector<uint64_t> sorted_serials(std::span<const Site* const> sites) {
  std::vector<uint64_t> serials;
  for (const Site* site : sites) {
    for (const Block& block : site->survivors) serials.push_back(block.serial);
  }
  std::ranges::sort(serials);
  return serials;
}

std::vector<uint64_t> gaps_between(const std::vector<uint64_t>& serials) {
  std::vector<uint64_t> gaps;
  for (size_t i = 1; i < serials.size(); ++i) gaps.push_back(serials[i] - serials[i - 1]);
  return gaps;
}

// One birth an iteration: gaps of equal length, or whole multiples of one where iterations were left out.
bool follow_one_rhythm(const std::vector<uint64_t>& sorted_gaps) {
  const uint64_t shorter = sorted_gaps[sorted_gaps.size() / 10], longer = sorted_gaps[sorted_gaps.size() * 9 / 10];
  if (static_cast<double>(longer) <= static_cast<double>(shorter) * kEvenGaps) return true;
  if (shorter < kShortestRhythm) return false;
  return std::ranges::all_of(sorted_gaps, [shorter](uint64_t gap) {
    const double times = static_cast<double>(gap) / static_cast<double>(shorter);
    return gap >= shorter && times - static_cast<uint64_t>(times + kWholeNumber) <= kWholeNumber;
  });
}

// Gaps that part one iteration from the next: clearly longer than those within.
size_t long_gaps(const std::vector<uint64_t>& sorted_gaps) {
  const uint64_t longer = sorted_gaps[sorted_gaps.size() * 9 / 10], shorter = sorted_gaps.front();
  const uint64_t border = shorter + (longer - shorter) / 2;
  return static_cast<size_t>(std::ranges::count_if(sorted_gaps, [border](uint64_t gap) { return gap > border; }));
}

// One birth an iteration, and each iteration takes longer than the one before.
void note_lengthening(const std::vector<uint64_t>& gaps, Births& births) {
  if (gaps.size() < kFewestLengthening) return;
  size_t longer = 0;
  for (size_t i = 1; i < gaps.size(); ++i) longer += gaps[i] >= gaps[i - 1];
  const uint64_t early = gaps[gaps.size() / 8], late = gaps[gaps.size() * 7 / 8];
  if (static_cast<double>(longer) < kMostlyLonger * static_cast<double>(gaps.size() - 1) || late < kClearlyLonger * early) return;
  births.early_gap = early;
  births.late_gap = late;
}

}  // namespace

Births births_of(std::span<const Site* const> sites) {
  const std::vector<uint64_t> serials = sorted_serials(sites);
  if (serials.empty()) return {};
  Births births{serials.size(), serials.size(), 1, 0, serials.front(), serials.back(), 0, 0};
  std::vector<uint64_t> gaps = gaps_between(serials);
  note_lengthening(gaps, births);
  std::ranges::sort(gaps);
  if (!gaps.empty()) births.shortest_gap = gaps[gaps.size() / 10];
  if (!gaps.empty() && births.late_gap == 0 && !follow_one_rhythm(gaps)) births.iterations = long_gaps(gaps) + 1;
  births.per_iteration = static_cast<double>(births.blocks) / static_cast<double>(births.iterations);
  return births;
}

Births births_of(const Site& site) {
  const Site* one[] = {&site};
  return births_of(one);
}

size_t iterations_of(const Heap& heap, const Site& site) {
  const Births births = births_of(site);
  if (heap.process.steps == 0 || site.survivors.empty()) return births.iterations;
  std::set<uint32_t> steps;
  for (const Block& block : site.survivors) steps.insert(block.step);
  const double span = *steps.rbegin() - *steps.begin() + 1.0;
  return steps.size() > 1 && static_cast<double>(steps.size()) >= kNearlyEveryStep * span ? steps.size() : births.iterations;
}

double density(const Births& births) {
  if (births.blocks == 0) return 0;
  return static_cast<double>(births.blocks) / static_cast<double>(births.last_serial - births.first_serial + 1);
}

double average_size(const Site& site) {
  return site.allocations == 0 ? 0 : static_cast<double>(site.allocated_bytes) / static_cast<double>(site.allocations);
}

bool is_used_for_a_while(const Heap& heap, const Site& site, bool in_one_go) {
  const double used = end_of_work(heap.process) - site.last_time, making = site.last_time - site.first_time;
  const double least = in_one_go ? kInOneGo : 1;
  return used > least * kLongUse && used > least * kUsedOverMaking * making;
}

bool is_freed_each_time(const Site& site) {
  return site.frees + 1 >= site.allocations && site.max_live_blocks * kPairsToOneLive <= site.allocations;
}

bool is_made_all_along(const Heap& heap, const Site& site) {
  const double making = site.last_time - site.first_time;
  return making > kLongMaking && making > kAllAlong * (end_of_work(heap.process) - heap.process.recorded_from);
}

}  // namespace vramtrack

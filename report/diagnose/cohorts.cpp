// Which sites make up one model? See cohorts.h.
#include "report/diagnose/cohorts.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>

#include "report/categories.h"

namespace vramtrack {
namespace {

constexpr double kMiddleOfRun = 0.5;      // models all built in the first half were built once, for the rest of the run
constexpr uint64_t kLongestWithin = 3;    // allocations from one parameter to the next of the same model, at least allowed
constexpr uint64_t kLongerThanUsual = 3;  // times the usual gap: another model begins
constexpr double kTwoAtOnce = 1.8;        // times the usual level: both models stood at once
constexpr double kThreeModels = 2.5;      // times the usual level allocated in all: two models may be a student and a teacher

bool is_parameter(const Heap& heap, const Site& site) { return category(heap, site) == "parameter"; }

// Built again and again through the run. Models are few, so two rises count where other sites need three.
bool keeps_coming(const Growth& growth) {
  if (growth.shape == Shape::kRising) return true;
  return growth.shape == Shape::kFlat && growth.rises >= 2 && growth.end > kMiddleOfRun;
}

std::vector<const Block*> born_in_order(const Examination& exam, std::span<const SiteIndex> sites) {
  std::vector<const Block*> blocks;
  for (SiteIndex i : sites) {
    for (const Block& block : exam.heap.sites[i].survivors) blocks.push_back(&block);
  }
  std::ranges::sort(blocks, std::less<>(), [](const Block* block) { return block->serial; });
  return blocks;
}

uint64_t usual_gap(const std::vector<const Block*>& blocks) {
  std::vector<uint64_t> gaps;
  for (size_t i = 1; i < blocks.size(); ++i) gaps.push_back(blocks[i]->serial - blocks[i - 1]->serial);
  if (gaps.empty()) return 0;
  std::ranges::nth_element(gaps, gaps.begin() + gaps.size() / 2);
  return gaps[gaps.size() / 2];
}

// Parameters of one model are allocated one right after the other; training or inference lies between two models.
size_t count_builds(const std::vector<const Block*>& blocks) {
  const uint64_t usual = usual_gap(blocks);
  const bool one_parameter_each = usual > kLongestWithin;
  const uint64_t border = one_parameter_each ? kLongestWithin : std::max(kLongestWithin, usual * kLongerThanUsual);
  size_t builds = blocks.empty() ? 0 : 1;
  std::set<uint32_t> steps;
  for (size_t i = 0; i < blocks.size(); ++i) {
    steps.insert(blocks[i]->step);
    if (i > 0) builds += blocks[i]->serial - blocks[i - 1]->serial > border;
  }
  return one_parameter_each && steps.size() > 2 ? steps.size() : std::max(builds, steps.size());
}

// The outer frames that all of these stacks share.
Stack common_callers(const Heap& heap, std::span<const SiteIndex> sites) {
  Stack common = heap.sites[sites.front()].stack;
  for (SiteIndex i : sites) {
    const Stack& stack = heap.sites[i].stack;
    const auto [mine, theirs] = std::mismatch(common.rbegin(), common.rend(), stack.rbegin(), stack.rend());
    common.erase(common.begin(), mine.base());
  }
  return common;
}

// The level at which a site usually stands: the median of its floors while it held anything.
double usual_level(const Curve& curve) {
  std::vector<double> floors;
  std::ranges::copy_if(curve.floor, std::back_inserter(floors), [](double floor) { return floor > 0; });
  if (floors.empty()) return 0;
  std::ranges::nth_element(floors, floors.begin() + floors.size() / 2);
  return floors[floors.size() / 2];
}

bool overlaps_its_successor(const Site& site) {
  const double level = usual_level(site.curve);
  return level > 0 && site.frees > 0 && site.max_live_bytes >= kTwoAtOnce * level && site.allocated_bytes >= kThreeModels * level;
}

std::optional<Cohort> cohort_of(const Examination& exam, std::vector<SiteIndex> sites) {
  if (sites.empty()) return std::nullopt;
  Cohort cohort;
  cohort.built_at = common_callers(exam.heap, sites);
  cohort.sites = std::move(sites);
  return cohort;
}

}  // namespace

std::optional<Cohort> growing_cohort(const Examination& exam, int space) {
  std::vector<SiteIndex> sites;
  double bytes = 0;
  for (SiteIndex i = 0; i < exam.heap.sites.size(); ++i) {
    const Site& site = exam.heap.sites[i];
    if (exam.explained[i] || site.space != space || !keeps_coming(exam.growth[i]) || !is_parameter(exam.heap, site)) continue;
    sites.push_back(i);
    bytes += static_cast<double>(held_bytes(exam, i));
  }
  std::optional<Cohort> cohort = cohort_of(exam, std::move(sites));
  if (!cohort) return cohort;
  cohort->builds = count_builds(born_in_order(exam, cohort->sites));
  cohort->bytes_each = cohort->builds > 0 ? bytes / static_cast<double>(cohort->builds) : 0;
  return cohort;
}

std::optional<Cohort> overlapping_cohort(const Examination& exam, int space) {
  std::vector<SiteIndex> sites;
  double bytes = 0;
  for (SiteIndex i = 0; i < exam.heap.sites.size(); ++i) {
    const Site& site = exam.heap.sites[i];
    if (exam.explained[i] || site.space != space || !is_parameter(exam.heap, site) || !overlaps_its_successor(site)) continue;
    sites.push_back(i);
    bytes += usual_level(site.curve);
  }
  std::optional<Cohort> cohort = cohort_of(exam, std::move(sites));
  if (cohort) cohort->bytes_each = bytes;
  return cohort;
}

}  // namespace vramtrack

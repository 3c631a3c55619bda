// Is memory taken from the driver and given back over and over? cudaMalloc and cudaFree take a tenth of a millisecond each, and
// cudaFree waits for the device: in a loop they are time lost, which a pool or one buffer saves.
#include <fmt/format.h>

#include <algorithm>

#include "report/diagnose/families.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr uint64_t kFewestPairs = 100;
constexpr uint64_t kMostAtOnce = 8;        // more is a set that is filled and emptied
constexpr double kMostlyFreed = 0.9;
constexpr double kLeastTime = 0.005;       // of the run, spent in the calls,
constexpr double kMostOfRun = 0.5;         // or through this much of it
constexpr double kLeastRate = 20;          // so many pairs a second
constexpr uint64_t kSurePairs = 500;

// Stream-ordered memory has its pool already, and registering is no allocation.
bool is_slow_to_take(Kind kind) {
  return kind == Kind::kDevice || kind == Kind::kManaged || kind == Kind::kArray || kind == Kind::kMipmappedArray ||
         kind == Kind::kPinned;
}

double share_of_run(const Heap& heap, const Site& site) {
  return heap.process.duration > 0 ? std::min(1.0, site.driver_time / heap.process.duration) : 0;
}

bool churns(const Examination& exam, SiteIndex i) {
  const Site& site = exam.heap.sites[i];
  if (exam.explained[i] || space_of(exam.heap, site).layer != Layer::kDriver || !is_slow_to_take(site.kind)) return false;
  const double pairs = static_cast<double>(site.frees);
  if (site.allocations < kFewestPairs || pairs < kMostlyFreed * static_cast<double>(site.allocations)) return false;
  if (site.max_live_blocks > kMostAtOnce) return false;
  const double duration = exam.heap.process.duration - exam.heap.process.recorded_from;
  const bool all_along = site.last_time - site.first_time >= kMostOfRun * duration && pairs >= kLeastRate * duration;
  return share_of_run(exam.heap, site) >= kLeastTime || all_along;
}

std::string_view remedy(Kind kind) {
  if (kind == Kind::kPinned) return "Allocate the pinned buffer once outside the loop and use it again.";
  return "Allocate once outside the loop and use the block again, or take it from a pool: `cudaMallocAsync` with `cudaFreeAsync`, "
         "which cost a microsecond.";
}

Finding allocation_churn(Examination& exam, SiteIndex i) {
  const Site& site = exam.heap.sites[i];
  const bool costs_time = share_of_run(exam.heap, site) >= kLeastTime;
  const Confidence sure = !costs_time ? Confidence::kLow : site.frees >= kSurePairs ? Confidence::kHigh : Confidence::kMedium;
  Finding finding = make_finding(exam, "allocation-churn", Severity::kWaste, sure, {{i, 0, 0}});
  const double average = static_cast<double>(site.allocated_bytes) / static_cast<double>(site.allocations);
  finding.title = fmt::format("{} of {} were allocated and freed again at {}", count_text(site.allocations, "block"),
                              size_text(average), place_among_others(exam.heap, site.stack));
  finding.evidence = {fmt::format("at most {} at a time: what one iteration frees the next one allocates again",
                                  count_text(site.max_live_blocks, "block"))};
  if (costs_time) {
    finding.evidence.push_back(fmt::format("the calls took {:.2f} s, {:.0f} % of the run; freeing also waits for the device",
                                           site.driver_time, 100 * share_of_run(exam.heap, site)));
  }
  finding.advice = remedy(site.kind);
  return finding;
}

}  // namespace

std::vector<Finding> find_allocation_churn(Examination& exam) {
  std::vector<Finding> found;
  for (SiteIndex i = 0; i < exam.heap.sites.size(); ++i) {
    if (churns(exam, i)) found.push_back(allocation_churn(exam, i));
  }
  return found;
}

}  // namespace vramtrack

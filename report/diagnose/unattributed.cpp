// Does the driver take more and more memory for the process that no allocation explains? Streams, events, instantiated graphs, modules
// and local memory cost device memory without an allocation call; what rises with them is theirs.
//
// The look-alike is the beginning of a program: a context, libraries and lazily loaded kernels come one after the other.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "report/categories.h"
#include "report/diagnose/families.h"
#include "report/diagnose/wording.h"
#include "report/pools.h"

namespace vramtrack {
namespace {

constexpr size_t kFewestPoints = 20;
constexpr int kFewestRises = 6;
constexpr double kLeastBytes = 16 << 20;
constexpr double kLeastShare = 0.01;  // of what is used

// What neither blocks nor the driver's pools explain: how much of a pool was in no block at that very moment is not known.
Curve curve_of(const Heap& heap, const Space& device) {
  Curve curve;
  for (const UsagePoint& point : device.usage.rest) {
    const uint64_t in_pools = reserved_in_pools(heap, device.device, point.time);
    curve.floor.push_back(static_cast<double>(point.rest - std::min(point.rest, in_pools)));
  }
  return curve;
}

// "250 streams made at app.cpp:12 in serve()", of the device's handles whose number rises as well.
std::vector<std::string> rising_handles(const Examination& exam, int device) {
  std::vector<std::string> texts;
  const Handles& handles = exam.heap.handles;
  for (size_t i = 0; i < handles.sites.size(); ++i) {
    const Site& site = handles.sites[i];
    if (exam.growth_of_handles[i].shape != Shape::kRising || handles.spaces[site.space].device != device) continue;
    texts.push_back(fmt::format("{} made at {}", count_text(site.end_blocks, noun_of(site.kind)), place_text(exam.heap, site.stack)));
  }
  return texts;
}

void name_cause(const std::vector<std::string>& handles, const std::string& amount, Finding& finding) {
  if (handles.empty()) {
    finding.title = amount + " were taken for this process without an allocation, and it goes on";
    finding.evidence.push_back("no handles that are recorded rise with it");
    finding.advice = "Look at what is loaded or created again and again: modules, kernels compiled at run time, library handles, local memory "
                     "of kernels with deep recursion.";
  } else {
    finding.title = fmt::format("{} came without an allocation, as {} pile up", amount, handles.front());
    finding.evidence.push_back(fmt::format("with it rise {}", fmt::join(handles, ", ")));
    finding.advice = "Destroy what is made again and again, or make it once and use it again; see the handles above.";
  }
}

Finding unattributed_growth(const Examination& exam, int space, const Growth& growth) {
  const Space& device = exam.heap.spaces[space];
  const std::vector<UsagePoint>& rest = device.usage.rest;
  Finding finding;
  finding.id = "unattributed-growth";
  finding.severity = Severity::kLeak;
  finding.confidence = Confidence::kMedium;
  finding.space = space;
  finding.bytes = static_cast<uint64_t>(growth.bytes);
  finding.evidence = {fmt::format("what no block explains rose from {} to {} in {:.0f} s", size_text(static_cast<double>(rest.front().rest)),
                                  size_text(static_cast<double>(rest.back().rest)), rest.back().time - rest.front().time)};
  name_cause(rising_handles(exam, device.device), fmt::format("{} on {}", size_text(growth.bytes), device_name(device)), finding);
  return finding;
}

}  // namespace

std::vector<Finding> find_unattributed_growth(Examination& exam) {
  std::vector<Finding> found;
  for (int space = 0; space < static_cast<int>(exam.heap.spaces.size()); ++space) {
    const Usage& usage = exam.heap.spaces[space].usage;
    if (usage.rest.size() < kFewestPoints) continue;
    const Growth growth = growth_of(curve_of(exam.heap, exam.heap.spaces[space]));
    const bool goes_on = growth.shape == Shape::kRising && growth.even && growth.rises >= kFewestRises;
    if (goes_on && growth.bytes >= std::max(kLeastBytes, kLeastShare * static_cast<double>(usage.used))) {
      found.push_back(unattributed_growth(exam, space, growth));
    }
  }
  return found;
}

}  // namespace vramtrack

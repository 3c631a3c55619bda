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

namespace vramtrack {
namespace {

constexpr size_t kFewestPoints = 20;
constexpr int kFewestRises = 6;
constexpr double kLeastBytes = 16 << 20;
constexpr double kLeastShare = 0.01;  // of what is used

Curve curve_of(const Usage& usage) {
  Curve curve;
  for (const UsagePoint& point : usage.rest) curve.floor.push_back(static_cast<double>(point.rest));
  return curve;
}

// "250 streams made at app.cpp:12 in serve()", of the handles whose number rises as well.
std::vector<std::string> rising_handles(const Examination& exam) {
  std::vector<std::string> texts;
  const std::vector<Site>& handles = exam.heap.handles.sites;
  for (size_t i = 0; i < handles.size(); ++i) {
    if (exam.growth_of_handles[i].shape != Shape::kRising) continue;
    texts.push_back(fmt::format("{} made at {}", count_text(handles[i].end_blocks, noun_of(handles[i].kind)), place_text(exam.heap, handles[i].stack)));
  }
  return texts;
}

Finding unattributed_growth(const Examination& exam, int space, const Growth& growth) {
  const Usage& usage = exam.heap.spaces[space].usage;
  Finding finding;
  finding.id = "unattributed-growth";
  finding.severity = Severity::kLeak;
  finding.confidence = Confidence::kMedium;
  finding.space = space;
  finding.bytes = static_cast<uint64_t>(growth.bytes);
  finding.title = fmt::format("{} on {} were taken for this process without an allocation, and it goes on", size_text(growth.bytes),
                              device_name(exam.heap.spaces[space]));
  finding.evidence = {fmt::format("what no block explains rose from {} to {} in {:.0f} s", size_text(static_cast<double>(usage.rest.front().rest)),
                                  size_text(static_cast<double>(usage.rest.back().rest)), usage.rest.back().time - usage.rest.front().time)};
  const std::vector<std::string> handles = rising_handles(exam);
  if (!handles.empty()) finding.title = fmt::format("{} on {} came without an allocation, as {} pile up", size_text(growth.bytes),
                                                    device_name(exam.heap.spaces[space]), handles.front());
  if (handles.empty()) {
    finding.evidence.push_back("no handles that are recorded rise with it");
    finding.advice = "Look at what is loaded or created again and again: modules, kernels compiled at run time, library handles, local memory "
                     "of kernels with deep recursion.";
  } else {
    finding.evidence.push_back(fmt::format("with it rise {}", fmt::join(handles, ", ")));
    finding.advice = "Destroy what is made again and again, or make it once and use it again; see the handles above.";
  }
  return finding;
}

}  // namespace

std::vector<Finding> find_unattributed_growth(Examination& exam) {
  std::vector<Finding> found;
  for (int space = 0; space < static_cast<int>(exam.heap.spaces.size()); ++space) {
    const Usage& usage = exam.heap.spaces[space].usage;
    if (usage.rest.size() < kFewestPoints) continue;
    const Growth growth = growth_of(curve_of(usage));
    const bool goes_on = growth.shape == Shape::kRising && growth.even && growth.rises >= kFewestRises;
    if (goes_on && growth.bytes >= std::max(kLeastBytes, kLeastShare * static_cast<double>(usage.used))) {
      found.push_back(unattributed_growth(exam, space, growth));
    }
  }
  return found;
}

}  // namespace vramtrack

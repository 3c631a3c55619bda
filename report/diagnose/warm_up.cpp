// What looks like a leak in the first minutes and is none: memory that grew once and has been still since.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/categories.h"
#include "report/diagnose/families.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr double kLeastShare = 0.1;    // of the peak; smaller growth makes nobody suspect a leak
constexpr double kAfterStart = 0.1;    // of the run: what is there before that was not seen to grow
constexpr double kStillSince = 0.75;   // of all allocations: no survivor is younger

// Grew while somebody could have been watching, not before the work began.
bool grew_during_the_run(const Heap& heap, const Site& site, const Growth& growth) {
  return heap.process.steps > 0 ? site.last_step >= 1 : growth.end > kAfterStart;
}

// What is made anew all the time (the last step's outputs, a model built again) only keeps its level; it is not still.
bool is_still(const Heap& heap, const Site& site) {
  if (site.survivors.empty()) return false;
  const double newest = static_cast<double>(site.survivors.back().serial);
  return newest < kStillSince * static_cast<double>(heap.process.allocations);
}

std::string composition(const Finding& finding) {
  std::map<std::string, uint64_t> bytes;
  for (const FindingSite& site : finding.sites) bytes[site.category.empty() ? "other" : site.category] += site.bytes;
  std::string text;
  for (const auto& [name, sum] : bytes) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, size_text(sum));
  return text;
}

double end_of_growth(const Examination& exam, const std::vector<SiteIndex>& sites) {
  double end = 0;
  for (SiteIndex i : sites) end = std::max(end, exam.growth[i].end);
  return end;
}

Finding settled_growth(Examination& exam, int space, const std::vector<SiteIndex>& sites) {
  const double end = end_of_growth(exam, sites);
  Finding finding = make_finding(exam, "warm-up", Severity::kInfo, Confidence::kHigh, shares_held(exam, sites));
  finding.bytes_per_step = 0;
  finding.first_step = UINT32_MAX, finding.last_step = 0;
  for (SiteIndex i : sites) {
    finding.first_step = std::min(finding.first_step, exam.heap.sites[i].survivors.front().step);
    finding.last_step = std::max(finding.last_step, exam.heap.sites[i].survivors.back().step);
  }
  finding.title = fmt::format("{} on {} grew early in the run and has been still since: not a leak",
                              size_text(finding.bytes), device_name(exam.heap.spaces[space]));
  finding.evidence = {
      fmt::format("nothing that survives was added in the last {:.0f} % of the run", (1 - end) * 100),
      "what grew: " + composition(finding),
  };
  finding.advice = "Nothing to fix: gradients appear with the first backward pass, an optimizer's moments with its first step, "
                   "caches and workspaces with first use. Plan for the level reached.";
  return finding;
}

}  // namespace

std::vector<Finding> find_settled_growth(Examination& exam) {
  std::vector<Finding> found;
  for (int space = 0; space < static_cast<int>(exam.heap.spaces.size()); ++space) {
    if (exam.heap.spaces[space].layer != Layer::kPytorch) continue;  // below, never-freed says what is left and why
    std::vector<SiteIndex> sites;
    double bytes = 0;
    for (SiteIndex i : unexplained(exam, space, Shape::kSettled)) {
      if (!grew_during_the_run(exam.heap, exam.heap.sites[i], exam.growth[i]) || !is_still(exam.heap, exam.heap.sites[i])) continue;
      sites.push_back(i);
      bytes += exam.growth[i].bytes;
    }
    if (bytes < kLeastShare * static_cast<double>(exam.heap.spaces[space].peak_bytes) || sites.empty()) continue;
    found.push_back(settled_growth(exam, space, sites));
  }
  return found;
}

}  // namespace vramtrack

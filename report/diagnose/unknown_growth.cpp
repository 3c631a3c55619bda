// What grows and fits no rule: an honest answer, after every other family was asked.
#include <fmt/format.h>

#include "report/diagnose/families.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

Finding unknown_growth(Examination& exam, const std::vector<SiteIndex>& sites) {
  Finding finding = make_finding(exam, "unknown-growth", Severity::kLeak, Confidence::kLow, shares_held(exam, sites));
  const FindingSite& largest = finding.sites.front();
  finding.title = fmt::format("{} allocated at {} are not given back, and no rule says why", size_text(finding.bytes),
                              place_text(exam.heap, largest.stack));
  finding.evidence = {rate_text(exam.heap, finding)};
  if (!largest.category.empty()) finding.evidence.push_back("mostly of category " + largest.category);
  finding.advice = "Look at what keeps the blocks of the sites below; the growth is certain, its cause is not.";
  return finding;
}

}  // namespace

std::vector<Finding> find_unknown_growth(Examination& exam) {
  std::vector<Finding> found;
  for (int space = 0; space < static_cast<int>(exam.heap.spaces.size()); ++space) {
    if (exam.heap.spaces[space].layer != Layer::kPytorch) continue;  // what grows in the driver's is all forgotten or kept
    const std::vector<SiteIndex> sites = unexplained(exam, space, Shape::kRising);
    double bytes = 0;
    for (SiteIndex i : sites) bytes += static_cast<double>(held_bytes(exam, i));
    if (!sites.empty() && is_worth_a_leak(exam.heap, space, bytes)) found.push_back(unknown_growth(exam, sites));
  }
  return found;
}

}  // namespace vramtrack

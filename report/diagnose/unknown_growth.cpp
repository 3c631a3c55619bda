// What grows and fits no rule: an honest answer, after every other family was asked.
#include <fmt/format.h>

#include <algorithm>

#include "report/categories.h"
#include "report/diagnose/families.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr double kMostPerParameter = 3;  // bytes: a gradient and Adam's two moments

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

// Gradients and an optimizer's moments come with the parameters that are trained, be it layer after layer, and are bounded by them.
bool come_with_parameters(const Examination& exam, int space, const std::vector<SiteIndex>& sites, double bytes) {
  const auto is_of_training = [&](SiteIndex i) {
    const std::string_view what = category(exam.heap, exam.heap.sites[i]);
    return what == "gradient" || what == "optimizer state";
  };
  double parameters = 0;
  for (const Site& site : exam.heap.sites) {
    if (site.space == space && category(exam.heap, site) == "parameter") parameters += static_cast<double>(site.end_bytes);
  }
  return std::ranges::all_of(sites, is_of_training) && bytes <= kMostPerParameter * parameters;
}

}  // namespace

std::vector<Finding> find_unknown_growth(Examination& exam) {
  std::vector<Finding> found;
  for (int space = 0; space < static_cast<int>(exam.heap.spaces.size()); ++space) {
    if (exam.heap.spaces[space].layer != Layer::kPytorch) continue;  // what grows in the driver's is all forgotten or kept
    const std::vector<SiteIndex> sites = unexplained(exam, space, Shape::kRising);
    double bytes = 0;
    for (SiteIndex i : sites) bytes += static_cast<double>(held_bytes(exam, i));
    if (sites.empty() || come_with_parameters(exam, space, sites, bytes)) continue;
    if (is_worth_a_leak(exam.heap, space, bytes)) found.push_back(unknown_growth(exam, sites));
  }
  return found;
}

}  // namespace vramtrack

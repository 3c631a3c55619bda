// Which outputs of one step live on through the next step's forward pass, for want of a `del`?
//
// With an optimizer, a step number is taken at `step()`: what the forward pass makes and backward frees lives 0 steps; what is
// freed only when its name is bound again lives exactly 1, and meets its successor. What a function lets go of on its return
// after `step()` lives 1 as well, and does not.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/categories.h"
#include "report/diagnose/families.h"
#include "report/diagnose/survivors.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr uint32_t kFewestSteps = 6;
constexpr double kNearlyEveryStep = 0.8;  // of the steps leave one behind
constexpr double kSeldomLonger = 0.1;     // of the steps: blocks that live longer are no leftovers of the last step
constexpr double kWorthADel = 0.05;       // of the peak
constexpr double kLeastBytes = 64 * 1024;

// Blocks of a site that each step leaves to the next.
double left_behind_per_step(const Site& site) {
  const double steps = static_cast<double>(site.last_step - site.first_step);
  double longer = 0;
  for (size_t bucket = 2; bucket < site.lifetime_steps.size(); ++bucket) longer += site.lifetime_steps[bucket];
  if (steps < kFewestSteps || longer > kSeldomLonger * steps) return 0;
  const double per_step = site.lifetime_steps[1] / steps;
  const bool meet = site.max_live_blocks > std::round(per_step) && site.allocs_over_live >= kNearlyEveryStep * steps;
  return per_step >= kNearlyEveryStep && meet ? std::round(per_step) : 0;
}

// What a function makes beside the forward pass it calls (a loss, a slice of the outputs) is left over with it. Alone, what is replaced
// each step is state: averaged weights, a running statistic.
bool is_left_over(const Heap& heap, const Site& site, const std::set<std::string>& forward_functions) {
  const Phase when = phase(heap, site.stack);
  if (when == Phase::kForward) return true;
  return when == Phase::kUnknown && category(heap, site) != "input" && forward_functions.contains(function_key(heap, site));
}

// The functions whose forward passes leave something behind.
std::set<std::string> functions_that_leave_outputs(const Examination& exam, int space) {
  std::set<std::string> functions;
  for (SiteIndex i = 0; i < exam.heap.sites.size(); ++i) {
    const Site& site = exam.heap.sites[i];
    const bool forward = !exam.explained[i] && site.space == space && phase(exam.heap, site.stack) == Phase::kForward;
    if (forward && left_behind_per_step(site) != 0) functions.insert(function_key(exam.heap, site));
  }
  return functions;
}

bool peak_holds_both(const Heap& heap, const Finding& finding) {
  const Site* largest = find_site(heap, finding.sites.front().site);
  return largest != nullptr && largest->peak_blocks > finding.sites.front().blocks;
}

Finding stale_intermediates(Examination& exam, std::vector<Share> shares) {
  const std::vector<bool> explained = exam.explained;
  Finding finding = make_finding(exam, "stale-intermediates", Severity::kWaste, Confidence::kMedium, std::move(shares));
  exam.explained = explained;  // what is left over each step does not explain what a site piles up
  finding.bytes_per_step = 0;
  const bool at_peak = peak_holds_both(exam.heap, finding);
  if (at_peak) finding.confidence = Confidence::kHigh;
  finding.title = fmt::format("{} of the last step, made at {}, live on through the next forward pass", size_text(finding.bytes),
                              place_text(exam.heap, finding.sites.front().stack));
  finding.evidence = {"each block is freed one step after it was made, when the same name is bound again",
                      at_peak ? fmt::format("both the old and the new stand in the peak: `del` takes {} off it", size_text(finding.bytes))
                              : fmt::format("they stand beside the next step's forward pass, {} that it could use", size_text(finding.bytes))};
  finding.advice = fmt::format("`del` the outputs and the loss at the end of the step (made at {}), or put the step in a function, so "
                               "that they go when it returns.", place_text(exam.heap, finding.sites.front().stack));
  return finding;
}

}  // namespace

std::vector<Finding> find_stale_intermediates(Examination& exam) {
  std::vector<Finding> found;
  for (int space = 0; space < static_cast<int>(exam.heap.spaces.size()); ++space) {
    if (exam.heap.spaces[space].layer != Layer::kPytorch) continue;
    const std::set<std::string> functions = functions_that_leave_outputs(exam, space);
    std::vector<Share> shares;
    double bytes = 0;
    for (SiteIndex i = 0; i < exam.heap.sites.size(); ++i) {
      const Site& site = exam.heap.sites[i];
      if (exam.explained[i] || site.space != space || !is_left_over(exam.heap, site, functions)) continue;
      const double blocks = left_behind_per_step(site);
      if (blocks == 0) continue;
      shares.push_back({i, static_cast<uint64_t>(blocks * average_size(site)), static_cast<uint64_t>(blocks)});
      bytes += blocks * average_size(site);
    }
    const double peak = static_cast<double>(exam.heap.spaces[space].peak_bytes);
    if (bytes < std::max(kLeastBytes, kWorthADel * peak)) continue;
    found.push_back(stale_intermediates(exam, std::move(shares)));
  }
  return found;
}

}  // namespace vramtrack

// Does a custom autograd Function keep its own output? `ctx.y = output` ties the output to the node that made it: a cycle
// that only the cyclic garbage collector takes apart. `ctx.save_for_backward` makes none.
#include <fmt/format.h>

#include <algorithm>

#include "report/categories.h"
#include "report/diagnose/families.h"
#include "report/diagnose/survivors.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr uint64_t kFewestBlocks = 16;    // at once; fewer are what a step has in flight
constexpr double kLeastShare = 0.2;       // of the peak that the blocks reached
constexpr double kTiedShare = 0.9;        // of the blocks made while an earlier one lived

std::vector<const Location*> python_lines(const Heap& heap, const Stack& stack) {
  std::vector<const Location*> lines;
  for (uint32_t index : stack) {
    if (index < heap.frames.size() && heap.frames[index].kind == FrameKind::kPython && !heap.frames[index].locations.empty()) {
      lines.push_back(&heap.frames[index].locations.front());
    }
  }
  return lines;
}

bool is_named(const Location& at, std::string_view name) {
  return std::string_view(at.function).substr(at.function.rfind('.') + 1) == name;
}

// The user's `forward` called by autograd (`Function.apply`, which is C, or a Python frame in newer versions), and not by a
// module's `__call__`.
bool is_in_custom_forward(const Heap& heap, const Stack& stack) {
  const std::vector<const Location*> lines = python_lines(heap, stack);
  if (lines.empty() || !is_named(*lines[0], "forward") || phase(heap, stack) == Phase::kBackward) return false;
  if (in_torch(lines[0]->file, "")) return false;
  if (lines.size() == 1) return true;
  return !in_torch(lines[1]->file, "nn/modules/") && (!in_torch(lines[1]->file, "") || is_named(*lines[1], "apply"));
}

bool is_collected_in_bursts(const Site& site, const Growth& growth) {
  return growth.shape == Shape::kSawTooth && site.max_live_blocks >= kFewestBlocks && site.size_max > kScalarBytes &&
         site.allocs_over_live >= kTiedShare * site.allocations;
}

// Were the results kept by the caller, other things of the same step would be as well, and would go with them.
bool is_the_only_one(const Examination& exam, SiteIndex i) {
  for (SiteIndex other = 0; other < exam.heap.sites.size(); ++other) {
    const Site& site = exam.heap.sites[other];
    const bool piles_up = site.space == exam.heap.sites[i].space && exam.growth[other].shape == Shape::kSawTooth &&
                          site.size_max > kScalarBytes && site.max_live_blocks >= kFewestBlocks;
    if (piles_up && !is_in_custom_forward(exam.heap, site.stack)) return false;
  }
  return true;
}

Finding tied_output(Examination& exam, SiteIndex i) {
  const Site& site = exam.heap.sites[i];
  Finding finding = make_finding(exam, "retained-intermediates", Severity::kLeak, Confidence::kMedium,
                                 {{i, site.max_live_bytes, site.max_live_blocks}});
  const std::string place = place_text(exam.heap, site.stack);
  finding.title = fmt::format("Outputs of the custom Function at {} live on until the garbage collector runs: up to {}", place,
                              size_text(finding.bytes));
  finding.evidence = {
      fmt::format("{} outputs pile up to {} and go in bursts, {} seen, instead of one by one", site.allocations,
                  count_text(site.max_live_blocks, "block"), count_text(static_cast<uint64_t>(exam.growth[i].falls) + exam.growth[i].fell_at_end, "burst")),
      "nothing else of the same iterations piles up, so no list holds them: a cycle through `ctx` does",
  };
  finding.advice = fmt::format("Use `ctx.save_for_backward(output)` instead of an attribute (`ctx.y = output`) at {}.", place);
  return finding;
}

}  // namespace

std::vector<Finding> find_custom_function_cycles(Examination& exam) {
  std::vector<Finding> found;
  for (SiteIndex i = 0; i < exam.heap.sites.size(); ++i) {
    const Site& site = exam.heap.sites[i];
    if (exam.explained[i] || space_of(exam.heap, site).layer != Layer::kPytorch) continue;
    if (!is_collected_in_bursts(site, exam.growth[i]) || !is_in_custom_forward(exam.heap, site.stack)) continue;
    const double peak = static_cast<double>(space_of(exam.heap, site).peak_bytes);
    if (site.max_live_bytes >= kLeastShare * peak && is_the_only_one(exam, i)) found.push_back(tied_output(exam, i));
  }
  return found;
}

}  // namespace vramtrack

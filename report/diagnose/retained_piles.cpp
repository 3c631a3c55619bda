// Is what is kept results, a graph, or a tensor that gets ever larger? See retained_piles.h.
#include "report/diagnose/retained.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

#include "report/categories.h"
#include "report/diagnose/survivors.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr double kOneAndSome = 1.5;     // results are one an iteration; a second one now and then is no second result
constexpr std::ptrdiff_t kFewGrowing = 2;  // an accumulated tensor and one made from it
constexpr uint64_t kNextLayer = 6;      // allocations from one layer's output to the next layer's
constexpr double kUsedAfterwards = 0.02;  // of the process's allocations
constexpr double kOftenLarger = 0.25;    // of the allocations; the others are of operators that share the line
constexpr uint64_t kMuchLonger = 4;     // times the allocations of any line of the forward pass
constexpr double kMostlyReplaced = 0.8; // of the allocations freed again: each takes the place of the one before

bool is_replaced_by_larger(const Site& site) {
  const bool one_at_a_time = std::max(site.end_blocks, site.live_blocks) <= 2;
  return one_at_a_time && site.frees >= kMostlyReplaced * site.allocations &&
         site.new_max_sizes >= kOftenLarger * static_cast<double>(site.allocations);
}

bool is_forward(const Heap& heap, const Site& site) { return phase(heap, site.stack) == Phase::kForward; }

// A layer's output that went while others piled up. A kept graph lets go of some (what an activation function took in), kept
// results of nearly all.
bool is_freed_layer(const Site& site) {
  return site.allocations > 8 && site.frees + 2 >= site.allocations && site.size_max > kScalarBytes;
}

// Of one site in a layer's forward: what one layer after the other makes stays. The last outputs of several models are also
// several an iteration, but each model's other layers lie between them.
bool keeps_layer_after_layer(const Examination& exam, SiteIndex i) {
  const Site& site = exam.heap.sites[i];
  const Births births = births_of(site);
  if (!is_forward(exam.heap, site) || births.per_iteration <= kOneAndSome) return false;
  return site.frees <= site.allocations / 10 || births.shortest_gap <= kNextLayer;
}

// Layers of a recurrent network concatenate too, inside the framework: there the user's line is not the innermost one.
bool is_called_by_the_user(const Heap& heap, const Stack& stack) {
  const auto innermost = std::ranges::find_if(stack, [&](uint32_t index) {
    return index < heap.frames.size() && heap.frames[index].kind == FrameKind::kPython;
  });
  return innermost != stack.end() && is_user_frame(heap, heap.frames[*innermost]);
}

bool is_named_concatenation(const Heap& heap, const Stack& stack) {
  if (!is_called_by_the_user(heap, stack)) return false;
  static constexpr std::array<std::string_view, 6> kNames = {"::cat", "::_cat", "_cat::", "concat", "::stack", "::hstack"};
  return std::ranges::any_of(locations(heap, stack), [](const Location& at) {
    return std::ranges::any_of(kNames, [&](std::string_view name) { return at.function.find(name) != std::string::npos; });
  });
}

bool gets_ever_larger(const Site& site) { return site.allocations >= 8 && site.new_max_sizes >= kMostlyReplaced * site.allocations; }

}  // namespace

Piles sort_piles(const Examination& exam, std::span<const SiteIndex> sites) {
  Piles piles;
  for (SiteIndex i : sites) {
    const Site& site = exam.heap.sites[i];
    if (is_replaced_by_larger(site)) {
      piles.growing_one.push_back(i);
    } else {
      (site.size_max <= kScalarBytes ? piles.scalars : piles.tensors).push_back(i);
    }
  }
  return piles;
}

std::set<std::string> lines_with_layers(const Heap& heap) {
  std::set<std::string> lines;
  for (const Site& site : heap.sites) {
    if (is_forward(heap, site)) lines.insert(place_text(heap, site.stack));
  }
  return lines;
}

namespace {

// Backward passes get longer, and nothing else does: a bank of results that each iteration goes through makes both longer.
bool only_backward_gets_longer(const Heap& heap, int space) {
  uint64_t by_backward = 0, by_others = 0;
  for (const Site& site : heap.sites) {
    if (site.space != space) continue;
    uint64_t& most = phase(heap, site.stack) == Phase::kBackward ? by_backward : by_others;
    most = std::max(most, site.allocations);
  }
  return by_backward > kMuchLonger * by_others;
}

}  // namespace

std::optional<Births> lengthening_graph(const Examination& exam, std::span<const SiteIndex> tensors) {
  if (tensors.empty() || !only_backward_gets_longer(exam.heap, exam.heap.sites[tensors.front()].space)) return std::nullopt;
  for (SiteIndex i : tensors) {
    const Births births = births_of(exam.heap.sites[i]);
    if (births.late_gap > 0) return births;
  }
  return std::nullopt;
}

bool are_intermediates(const Examination& exam, std::span<const SiteIndex> tensors) {
  if (lengthening_graph(exam, tensors)) return true;
  if (std::ranges::any_of(tensors, [&](SiteIndex i) { return keeps_layer_after_layer(exam, i); })) return true;
  if (tensors.size() < 2) return false;

  std::map<std::string, int> kept_of_line;
  for (SiteIndex i : tensors) ++kept_of_line[place_text(exam.heap, exam.heap.sites[i].stack)];
  if (std::ranges::any_of(kept_of_line, [](const auto& line) { return line.second >= 2; })) return true;
  const auto freed_layers = std::ranges::count_if(exam.heap.sites, [&](const Site& site) {
    return is_freed_layer(site) && is_forward(exam.heap, site) && kept_of_line.contains(place_text(exam.heap, site.stack));
  });
  const std::set<std::string> forward = lines_with_layers(exam.heap);
  const auto kept_layers = std::ranges::count_if(kept_of_line, [&](const auto& line) { return forward.contains(line.first); });
  return kept_layers >= 2 && kept_layers >= freed_layers;
}

// Where the input gets longer, everything computed from it does; what is appended to grows alone.
std::vector<SiteIndex> concatenations(const Examination& exam, std::span<const SiteIndex> sites) {
  std::vector<SiteIndex> appended;
  if (sites.empty()) return appended;
  const int space = exam.heap.sites[sites.front()].space;
  const auto growing = std::ranges::count_if(exam.heap.sites, [&](const Site& other) {
    return other.space == space && gets_ever_larger(other);
  });
  std::ranges::copy_if(sites, std::back_inserter(appended), [&](SiteIndex i) {
    return growing <= kFewGrowing || is_named_concatenation(exam.heap, exam.heap.sites[i].stack);
  });
  return appended;
}

bool were_made_in_one_go(const Examination& exam, std::span<const SiteIndex> sites) {
  if (std::ranges::all_of(sites, [&](SiteIndex i) { return exam.growth[i].fell_at_end; })) {
    Span span;
    for (SiteIndex i : sites) extend(span, exam.heap.sites[i]);
    return density_of(exam, span) > kBackToBack;
  }
  std::vector<const Site*> merged;
  for (SiteIndex i : sites) merged.push_back(&exam.heap.sites[i]);
  const Births births = births_of(merged);
  const double all = static_cast<double>(exam.heap.process.allocations);
  return density(births) > kBackToBack && all - static_cast<double>(births.last_serial) > kUsedAfterwards * all;
}

}  // namespace vramtrack

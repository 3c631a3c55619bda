// What is kept from one iteration to the next, and why? See retained.h.
#include "report/diagnose/retained.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "report/categories.h"
#include "report/diagnose/families.h"
#include "report/diagnose/survivors.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr size_t kSureIterations = 20;    // that all kept something
constexpr uint64_t kManyScalars = 100;    // fewer are not even worth an info
constexpr double kMatters = 0.05;          // of the peak
constexpr double kMostIterations = 0.8;
constexpr double kGradientsOfAGraph = 0.2;  // share of what is kept

Births births_of_all(const Heap& heap, std::span<const SiteIndex> sites) {
  std::vector<const Site*> merged;
  for (SiteIndex i : sites) merged.push_back(&heap.sites[i]);
  return births_of(merged);
}

// A graph of gradients is about as large as the graph that it belongs to; a few blocks made by backward are none.
bool keeps_graph_of_gradients(const Examination& exam, std::span<const SiteIndex> sites) {
  uint64_t all = 0, by_backward = 0;
  for (SiteIndex i : sites) {
    all += held_bytes(exam, i);
    if (phase(exam.heap, exam.heap.sites[i].stack) == Phase::kBackward) by_backward += held_bytes(exam, i);
  }
  return static_cast<double>(by_backward) >= kGradientsOfAGraph * static_cast<double>(all);
}

// The function whose forward passes are kept, if it is one and no backward pass was called from it. Module-level code is none: it
// is below every call.
std::optional<std::string> function_without_backward(const Heap& heap, const Stack& forward) {
  const std::optional<Location> made = user_line(heap, forward);
  if (!made || made->function.empty() || made->function == "<module>") return std::nullopt;
  const auto runs_backward = [&](const Site& site) {
    return phase(heap, site.stack) == Phase::kBackward && std::ranges::any_of(locations(heap, site.stack), [&](const Location& at) {
             return at.function == made->function && at.file == made->file;
           });
  };
  if (std::ranges::any_of(heap.sites, runs_backward)) return std::nullopt;
  return made->function;
}

// What the backward passes of the process tell about tensors that should have gone with one.
struct Cause {
  std::string evidence, advice;
};

Cause cause_of_kept_graph(const Examination& exam, std::span<const SiteIndex> sites, const Stack& stack) {
  const std::string place = place_text(exam.heap, stack);
  const Process& process = exam.heap.process;
  const Births births = births_of_all(exam.heap, sites);
  if (process.backward_passes == 0) {
    return {"no backward pass ever ran, so nothing let go of the graph: `no_grad` is missing, or a running sum or list holds it",
            fmt::format("Wrap the evaluation around {} in `torch.no_grad()` or `inference_mode()`, and accumulate numbers "
                        "(`.item()`) or `.detach()`ed tensors.", place)};
  }
  if (process.last_backward_serial != 0 && process.last_backward_serial < births.first_serial) {
    return {"no backward pass ran since the first of these allocations",
            fmt::format("Wrap the code around {} in `torch.no_grad()`, and accumulate `.item()` or `.detach()`ed tensors.", place)};
  }
  if (const auto longer = lengthening_graph(exam, sites)) {
    return {fmt::format("an iteration makes {} allocations early and {} late in the run: its backward pass goes through the graphs of "
                        "all before it, which a state that is carried over ties together", longer->early_gap, longer->late_gap),
            fmt::format("`.detach()` the state that {} carries to the next iteration; `retain_graph=True` is not needed then.", place)};
  }
  if (keeps_graph_of_gradients(exam, sites)) {
    return {fmt::format("{} backward passes ran, and some of the survivors were made by them: the graph of the gradients is kept "
                        "(`create_graph=True`)", process.backward_passes),
            "Use `torch.autograd.grad` instead of `backward(create_graph=True)`, or set every `.grad` to None before the next step."};
  }
  if (const auto function = function_without_backward(exam.heap, stack)) {
    return {fmt::format("{} backward passes ran, but none was called from {}(), where these were made", process.backward_passes, *function),
            fmt::format("If {0}() needs no gradients, wrap it in `torch.no_grad()` and accumulate `.item()`; if it does, keep nothing "
                        "that has a `grad_fn` beyond its backward pass: `.detach()` what is carried on from {1}.", *function, place)};
  }
  return {fmt::format("{} backward passes ran and did not free these: `retain_graph=True`, a state carried over undetached, a path "
                      "that no backward goes through, or an exception that keeps its frames", process.backward_passes),
          fmt::format("`.detach()` what is carried from one iteration to the next at {}, drop `retain_graph=True`, and keep no "
                      "tensor that has a `grad_fn` (nor an exception) in a list.", place)};
}

// The lines where layers run are the ones a person knows; the batch fed in is larger at times, but made elsewhere.
void put_layers_first(const Heap& heap, Finding& finding) {
  const std::set<std::string> layers = lines_with_layers(heap);
  std::ranges::stable_partition(finding.sites, [&](const FindingSite& site) { return layers.contains(place_text(heap, site.stack)); });
}

Finding retained_intermediates(Examination& exam, std::span<const SiteIndex> tensors) {
  const Births births = births_of_all(exam.heap, tensors);
  size_t iterations = 0;
  for (SiteIndex i : tensors) iterations = std::max(iterations, iterations_of(exam.heap, exam.heap.sites[i]));
  const Confidence sure = iterations >= kSureIterations ? Confidence::kHigh : Confidence::kMedium;
  Finding finding = make_finding(exam, "retained-intermediates", Severity::kLeak, sure, shares_held(exam, tensors));
  put_layers_first(exam.heap, finding);
  const std::string place = place_text(exam.heap, finding.sites.front().stack);
  const Cause cause = cause_of_kept_graph(exam, tensors, finding.sites.front().stack);
  finding.title = fmt::format("Intermediate results of the forward pass at {} are kept: {}", place, size_text(finding.bytes));
  if (births.blocks > 0) {
    finding.evidence.push_back(fmt::format("{} of {} survive, over {} iterations", count_text(births.blocks, "block"),
                                           count_text(tensors.size(), "allocation site"), iterations));
  }
  finding.evidence.push_back(rate_text(exam.heap, finding));
  finding.evidence.push_back(cause.evidence);
  finding.advice = cause.advice;
  return finding;
}

std::pair<uint64_t, uint64_t> smallest_and_largest(std::span<const Block> blocks) {
  const auto [least, most] = std::ranges::minmax_element(blocks, {}, &Block::size);
  return {least->size, most->size};
}

std::string result_rate(const Site& site) {
  const Births births = births_of(site);
  if (births.blocks == 0) return "they piled up until the program let go of them near its end";
  uint64_t least = site.size_min, most = site.size_max;
  if (!site.survivors.empty()) std::tie(least, most) = smallest_and_largest(site.survivors);
  if (least == most) {
    return fmt::format("{} of {} each, {} kept in each of {} iterations", count_text(births.blocks, "block"),
                       size_text(static_cast<double>(most)), births.per_iteration < 1.5 ? "one" : "several", births.iterations);
  }
  return fmt::format("{} of {} to {}, kept over {} iterations", count_text(births.blocks, "block"),
                     size_text(static_cast<double>(least)), size_text(static_cast<double>(most)), births.iterations);
}

// By the program itself, when it had made all it would make: when main() returned, or by a `clear()` at its end.
bool were_let_go(const Site& site) {
  return !site.survivors.empty() && std::ranges::all_of(site.survivors, &Block::let_go);
}

// Other blocks of the same line are mostly freed while the program works.
bool frees_others_there(const Heap& heap, const Site& kept) {
  const std::string place = place_text(heap, kept.stack);
  return std::ranges::any_of(heap.sites, [&](const Site& other) {
    const bool freed = other.allocations > 1 && 2 * other.end_blocks <= other.allocations;
    return other.id != kept.id && freed && place_text(heap, other.stack) == place;
  });
}

Finding retained_results(Examination& exam, std::span<const SiteIndex> tensors) {
  const Site& first = exam.heap.sites[tensors.front()];
  const bool let_go = were_let_go(first);
  const bool sure = births_of(first).iterations >= kSureIterations && tensors.size() == 1 && !let_go;
  Finding finding = make_finding(exam, "retained-results", Severity::kLeak, sure ? Confidence::kHigh : Confidence::kMedium,
                                 shares_held(exam, tensors));
  const std::string place = place_text(exam.heap, finding.sites.front().stack);
  const bool on_host = space_of(exam.heap, first).memory == Memory::kCpu;
  const std::string_view detach = category(exam.heap, first) == "activation" ? ".detach()" : "";
  finding.title = fmt::format("Results made at {} are kept{}: {}", place, on_host ? "" : " on the device", size_text(finding.bytes));
  finding.evidence = {result_rate(first), rate_text(exam.heap, finding)};
  if (frees_others_there(exam.heap, first)) {
    finding.evidence.push_back("the intermediates of the same computations were freed: only what came out of them is held");
  }
  if (let_go) finding.evidence.push_back("all of it went at the program's end, with what held it");
  const std::string move_away = on_host ? "" : fmt::format("Move what is collected off the device (`{}.cpu()`). ", detach);
  finding.advice = fmt::format("{}Reduce it at once (`.item()`, a running mean), or keep the last ones only: give the list or attribute that "
                               "holds what {} makes a bound.", move_away, place);
  return finding;
}

Finding growing_concatenation(Examination& exam, std::span<const SiteIndex> sites) {
  const Site& site = exam.heap.sites[sites.front()];
  const bool always_larger = site.new_max_sizes >= kMostIterations * site.allocations;
  Finding finding = make_finding(exam, "retained-results", Severity::kLeak, always_larger ? Confidence::kHigh : Confidence::kMedium,
                                 shares_held(exam, sites));
  const std::string place = place_text(exam.heap, site.stack);
  finding.title = fmt::format("A tensor grows with every iteration at {}: now {}", place, size_text(finding.bytes));
  finding.evidence = {fmt::format("allocated {} times, {} times larger than ever before, from {} to {}", site.allocations, site.new_max_sizes,
                                  size_text(static_cast<double>(site.size_min)), size_text(static_cast<double>(site.size_max))),
                      "each takes the place of the one before, which is freed: a growing concatenation",
                      "while it is copied both stand, so the peak holds it twice"};
  finding.advice = fmt::format("Collect the pieces in a list on the host (`.cpu()`) and `torch.cat` once at the end, or write into "
                               "a tensor allocated once, instead of concatenating at {}.", place);
  return finding;
}

Finding kept_scalars(Examination& exam, std::span<const SiteIndex> scalars) {
  Finding finding = make_finding(exam, "retained-results", Severity::kInfo, Confidence::kMedium, shares_held(exam, scalars));
  const std::string place = place_text(exam.heap, finding.sites.front().stack);
  const bool matters = static_cast<double>(finding.bytes) >= kMatters * static_cast<double>(exam.heap.spaces[finding.space].peak_bytes);
  finding.title = fmt::format("{} of a few numbers made at {} are kept: {}{}", count_text(finding.blocks, "tensor"), place,
                              size_text(finding.bytes), matters ? "" : ", too small to matter");
  finding.evidence = {rate_text(exam.heap, finding)};
  finding.advice = "Keep numbers (`.item()`, `.tolist()`) instead of tensors.";
  return finding;
}

void explain(Examination& exam, std::span<const SiteIndex> sites) {
  for (SiteIndex i : sites) exam.explained[i] = true;
}

uint64_t sum_held(const Examination& exam, std::span<const SiteIndex> sites, uint64_t (*held)(const Examination&, SiteIndex)) {
  uint64_t sum = 0;
  for (SiteIndex i : sites) sum += held(exam, i);
  return sum;
}

void judge_growing(Examination& exam, int space, const std::vector<SiteIndex>& growing, std::vector<Finding>& found) {
  const std::vector<SiteIndex> appended = concatenations(exam, growing);
  if (!appended.empty() && is_worth_a_leak(exam.heap, space, sum_held(exam, appended, held_bytes))) {
    found.push_back(growing_concatenation(exam, appended));
  }
  explain(exam, growing);  // the others are computed from an input that gets longer
}

void judge_tensors(Examination& exam, int space, std::vector<SiteIndex> tensors, std::vector<Finding>& found) {
  std::erase_if(tensors, [&](SiteIndex i) {  // those alone tell no cause; with others they are part of a kept graph
    const Phase when = phase(exam.heap, exam.heap.sites[i].stack);
    return when == Phase::kOptimizer || when == Phase::kConstruction;
  });
  const bool only_gradients = std::ranges::all_of(
      tensors, [&](SiteIndex i) { return phase(exam.heap, exam.heap.sites[i].stack) == Phase::kBackward; });
  if (tensors.empty() || only_gradients) return;
  if (!is_worth_a_leak(exam.heap, space, sum_held(exam, tensors, held_bytes)) || were_made_in_one_go(exam, tensors)) {
    explain(exam, tensors);
    return;
  }
  found.push_back(are_intermediates(exam, tensors) ? retained_intermediates(exam, tensors) : retained_results(exam, tensors));
}

void judge_scalars(Examination& exam, const std::vector<SiteIndex>& scalars, bool with_a_leak, std::vector<Finding>& found) {
  if (!with_a_leak && sum_held(exam, scalars, held_blocks) >= kManyScalars) found.push_back(kept_scalars(exam, scalars));
  explain(exam, scalars);  // losses of a graph that is reported already, or too few to matter
}

}  // namespace

std::vector<Finding> find_retained_tensors(Examination& exam) {
  std::vector<Finding> found;
  for (int space = 0; space < static_cast<int>(exam.heap.spaces.size()); ++space) {
    if (exam.heap.spaces[space].layer != Layer::kPytorch) continue;
    const Piles piles = sort_piles(exam, unexplained(exam, space, Shape::kRising));
    judge_growing(exam, space, piles.growing_one, found);
    const size_t before = found.size();
    judge_tensors(exam, space, piles.tensors, found);
    judge_scalars(exam, piles.scalars, found.size() > before, found);
  }
  return found;
}

}  // namespace vramtrack

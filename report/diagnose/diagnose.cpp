// Which families are asked, and in which order? See diagnose.h.
#include "report/diagnose/diagnose.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "report/diagnose/families.h"

namespace vramtrack {
namespace {

// What is no leak comes first, so that no later family can blame it. What explains most (a whole model with its gradients
// and moments, a handle with what it allocates) comes before what explains single blocks; what explains nothing comes last.
constexpr Family kFamilies[] = {
    find_preallocations,   find_settled_growth,   find_custom_function_cycles, find_bounded_accumulation, find_joined_results,
    find_repeated_models,  find_retained_tensors, find_handle_leaks,           find_forgotten_frees,      find_stale_intermediates,
    find_never_freed,      find_invalid_frees,    find_unattributed_growth,    find_allocation_churn,     find_unknown_growth,
    find_unused_cache,     find_stranded_streams, find_fragmentation,          find_idle_pools,          find_extra_contexts,
};

void append(std::vector<Finding>& all, std::vector<Finding> some) {
  std::ranges::move(some, std::back_inserter(all));
}

bool is_worse(const Finding& a, const Finding& b) {
  return std::tuple(a.severity, a.bytes, a.confidence) > std::tuple(b.severity, b.bytes, b.confidence);
}

}  // namespace

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::kInfo: return "info";
    case Severity::kWaste: return "waste";
    case Severity::kLeak: return "leak";
  }
  return "info";
}

std::string_view to_string(Confidence confidence) {
  switch (confidence) {
    case Confidence::kLow: return "low";
    case Confidence::kMedium: return "medium";
    case Confidence::kHigh: return "high";
  }
  return "low";
}

std::vector<Finding> diagnose(const Heap& heap) {
  Examination exam = examine(heap);
  std::vector<Finding> found;
  for (Family family : kFamilies) append(found, family(exam));
  append(found, find_host_growth(exam, found));
  append(found, find_out_of_memory(exam, found));
  std::ranges::stable_sort(found, is_worse);
  return found;
}

}  // namespace vramtrack

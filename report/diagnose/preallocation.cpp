// Did a framework take most of the device in one go, before it needed it? XLA (JAX) and TensorFlow do, and hand out parts of it: full
// by design, and no leak.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "report/diagnose/families.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr uint64_t kMostAllocations = 3;
constexpr double kLeastShare = 0.3;  // of the device

constexpr std::array<std::string_view, 5> kJaxFiles = {"/jaxlib/", "/jax_plugins/", "/jax/", "xla_cuda_plugin", "xla_extension"};
constexpr std::array<std::string_view, 2> kTensorFlowFiles = {"/tensorflow/", "libtensorflow"};

enum class Framework { kNone, kJax, kTensorFlow };

Framework framework_in(std::string_view file) {
  if (contains_any(file, kTensorFlowFiles)) return Framework::kTensorFlow;
  return contains_any(file, kJaxFiles) ? Framework::kJax : Framework::kNone;
}

// The innermost one: TensorFlow's programs may import JAX, and the other way round.
Framework framework_of(const Heap& heap, const Stack& stack) {
  for (uint32_t index : stack) {
    if (index >= heap.frames.size()) continue;
    const Frame& frame = heap.frames[index];
    const bool has_module = frame.kind == FrameKind::kNative && frame.module >= 0 && static_cast<size_t>(frame.module) < heap.modules.size();
    const std::string_view file = has_module ? std::string_view(heap.modules[frame.module].path)
                                  : frame.locations.empty() ? std::string_view() : std::string_view(frame.locations.front().file);
    if (const Framework is = framework_in(file); is != Framework::kNone) return is;
  }
  return Framework::kNone;
}

bool is_huge(const Heap& heap, const Site& site) {
  const double all = static_cast<double>(space_of(heap, site).total_bytes);
  return all > 0 && static_cast<double>(site.max_live_bytes) >= kLeastShare * all;
}

Finding preallocation(Examination& exam, SiteIndex i, Framework framework) {
  const Site& site = exam.heap.sites[i];
  const Space& space = space_of(exam.heap, site);
  const std::string_view name = framework == Framework::kJax ? "JAX (XLA)" : "TensorFlow";
  Finding finding = make_finding(exam, "preallocation", Severity::kInfo, Confidence::kHigh, {{i, site.max_live_bytes, site.max_live_blocks}});
  finding.bytes_per_step = 0;
  finding.title = fmt::format("{} took {} of {} at its first operation, to hand it out itself: not a leak", name, size_text(finding.bytes),
                              device_name(space));
  finding.evidence = {fmt::format("{}, {:.0f} % of the device, {:.1f} s after the start", count_text(site.allocations, "allocation"),
                                  100 * static_cast<double>(finding.bytes) / static_cast<double>(space.total_bytes), site.first_time),
                      "how much of it is in use is not seen from outside"};
  finding.advice = framework == Framework::kJax
                       ? "Nothing to fix. To share the device or to see what is really used, set XLA_PYTHON_CLIENT_PREALLOCATE=false, or "
                         "XLA_PYTHON_CLIENT_MEM_FRACTION to a smaller share."
                       : "Nothing to fix. To share the device or to see what is really used, call "
                         "`tf.config.experimental.set_memory_growth(gpu, True)` for each GPU before the first operation.";
  return finding;
}

}  // namespace

std::vector<Finding> find_preallocations(Examination& exam) {
  std::vector<Finding> found;
  for (SiteIndex i = 0; i < exam.heap.sites.size(); ++i) {
    const Site& site = exam.heap.sites[i];
    if (space_of(exam.heap, site).layer != Layer::kDriver || site.allocations > kMostAllocations || !is_huge(exam.heap, site)) continue;
    const Framework framework = framework_of(exam.heap, site.stack);
    if (framework != Framework::kNone) found.push_back(preallocation(exam, i, framework));
  }
  return found;
}

}  // namespace vramtrack

// Which sites grew, and by how much? See examination.h.
#include "report/diagnose/examination.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "report/categories.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr double kLeastLeak = 64 * 1024;   // below, only a large part of all memory is worth a word
constexpr double kLeastShare = 0.005;      // of the peak; a leak smaller than this is behind larger things
constexpr double kSmallShare = 0.05;       // of the peak, for leaks below kLeastLeak
constexpr double kAlwaysLeak = 16 << 20;   // worth a word whatever the peak is

bool is_cuda_library(std::string_view path) {
  static constexpr std::array<std::string_view, 4> kParts = {"libcuda.so", "libcudart", "libvramtrack", "libcuda-"};
  return contains_any(path, kParts);
}

bool is_pooling_library(std::string_view path) {
  static constexpr std::array<std::string_view, 8> kParts = {"libc10",     "libtorch",        "cupy",      "xla_extension",
                                                             "jaxlib",     "libtensorflow",   "librmm",    "xla_cuda"};
  return contains_any(path, kParts);
}

bool has_framework_blocks(const Heap& heap) {
  return std::ranges::any_of(heap.spaces, [](const Space& space) {
    return space.layer == Layer::kPytorch && space.memory == Memory::kDevice && space.allocations > 0;
  });
}

// The library that called CUDA: the first of the stack that is not CUDA itself. "" if no native frame tells.
std::string_view calling_library(const Heap& heap, const Stack& stack) {
  for (uint32_t index : stack) {
    if (index >= heap.frames.size()) continue;
    const Frame& frame = heap.frames[index];
    if (frame.kind != FrameKind::kNative || frame.module < 0 || static_cast<size_t>(frame.module) >= heap.modules.size()) continue;
    const std::string& path = heap.modules[frame.module].path;
    if (!is_cuda_library(path)) return path;
  }
  return "";
}

// PyTorch's blocks in a program without iterations: counted by allocations, what was made in the first moments and then used for a long
// time, with few allocations, looks as if it rose to the end.
bool is_at_rest_for_long(const Heap& heap, const Site& site) {
  constexpr double kShare = 0.5, kSeconds = 1;
  const Process& process = heap.process;
  if (process.steps > 0 || process.backward_passes > 0 || space_of(heap, site).layer != Layer::kPytorch) return false;
  const double rests = end_of_work(process) - site.last_time;
  return rests >= kSeconds && rests >= kShare * (end_of_work(process) - process.recorded_from);
}

}  // namespace

Examination examine(const Heap& heap) {
  Examination exam{heap, {}, {}, {}};
  const bool ended_by_itself = heap.process.ended.starts_with("exit:");
  for (const Site& site : heap.handles.sites) exam.growth_of_handles.push_back(growth_of(site, ended_by_itself));
  for (const Site& site : heap.sites) {
    const bool known_space = site.space >= 0 && static_cast<size_t>(site.space) < heap.spaces.size();
    exam.explained.push_back(!known_space || is_framework_segment(heap, site));
    Growth growth = growth_of(site, ended_by_itself);
    if (known_space && growth.shape == Shape::kRising && is_at_rest_for_long(heap, site)) growth.shape = Shape::kSettled;
    exam.growth.push_back(growth);
  }
  return exam;
}

const Space& space_of(const Heap& heap, const Site& site) { return heap.spaces[static_cast<size_t>(site.space)]; }

std::vector<SiteIndex> unexplained(const Examination& exam, int space, Shape shape) {
  std::vector<SiteIndex> found;
  for (SiteIndex i = 0; i < exam.heap.sites.size(); ++i) {
    if (!exam.explained[i] && exam.heap.sites[i].space == space && exam.growth[i].shape == shape) found.push_back(i);
  }
  std::ranges::stable_sort(found, std::greater<>(), [&](SiteIndex i) { return held_bytes(exam, i); });
  return found;
}

bool is_framework_segment(const Heap& heap, const Site& site) {
  const Space& space = space_of(heap, site);
  if (space.layer != Layer::kDriver || space.memory != Memory::kDevice) return false;
  const std::string_view library = calling_library(heap, site.stack);
  return library.empty() ? has_framework_blocks(heap) : is_pooling_library(library);
}

uint64_t held_bytes(const Examination& exam, SiteIndex i) {
  const Site& site = exam.heap.sites[i];
  return exam.growth[i].fell_at_end ? std::max(site.end_bytes, site.max_live_bytes) : site.end_bytes;
}

uint64_t held_blocks(const Examination& exam, SiteIndex i) {
  const Site& site = exam.heap.sites[i];
  return exam.growth[i].fell_at_end ? std::max(site.end_blocks, site.max_live_blocks) : site.end_blocks;
}

void extend(Span& span, const Site& site) {
  span.first = std::min(span.first, site.first_serial);
  span.last = std::max(span.last, site.last_serial);
}

namespace {

// The site's blocks that were made in the span, if it made them evenly.
double kept_in(const Span& span, const Site& site, const Growth& growth) {
  const uint64_t from = std::max(span.first, site.first_serial), to = std::min(span.last, site.last_serial);
  if (growth.shape != Shape::kRising || to < from) return 0;
  const double kept = static_cast<double>(growth.fell_at_end ? site.max_live_blocks : site.end_blocks);
  return kept * static_cast<double>(to - from + 1) / static_cast<double>(site.last_serial - site.first_serial + 1);
}

}  // namespace

double density_of(const Examination& exam, const Span& span) {
  if (span.last < span.first) return 0;
  double kept = 0;
  for (SiteIndex i = 0; i < exam.heap.sites.size(); ++i) kept += kept_in(span, exam.heap.sites[i], exam.growth[i]);
  const std::vector<Site>& handles = exam.heap.handles.sites;
  for (size_t i = 0; i < handles.size(); ++i) kept += kept_in(span, handles[i], exam.growth_of_handles[i]);
  return kept / static_cast<double>(span.last - span.first + 1);
}

bool is_worth_a_leak(const Heap& heap, int space, double bytes) {
  const double peak = static_cast<double>(heap.spaces[static_cast<size_t>(space)].peak_bytes);
  if (bytes >= kAlwaysLeak) return true;
  return bytes >= kLeastLeak ? bytes >= kLeastShare * peak : bytes >= kSmallShare * peak;
}

std::vector<Share> shares_held(const Examination& exam, std::span<const SiteIndex> sites) {
  std::vector<Share> shares;
  for (SiteIndex i : sites) shares.push_back({i, held_bytes(exam, i), held_blocks(exam, i)});
  return shares;
}

Finding make_finding(Examination& exam, std::string_view id, Severity severity, Confidence confidence, std::vector<Share> shares) {
  std::ranges::stable_sort(shares, std::greater<>(), &Share::bytes);
  Finding finding;
  finding.id = id;
  finding.severity = severity;
  finding.confidence = confidence;
  for (const Share& share : shares) {
    const Site& site = exam.heap.sites[share.site];
    exam.explained[share.site] = true;
    if (finding.sites.empty()) {
      finding.space = site.space;
      finding.kind = site.kind;
      finding.first_step = site.first_step;
    }
    finding.bytes += share.bytes;
    finding.blocks += share.blocks;
    finding.first_step = std::min(finding.first_step, site.first_step);
    finding.last_step = std::max(finding.last_step, site.last_step);
    finding.sites.push_back({site.id, site.stack, share.bytes, share.blocks, site.allocations, site.frees,
                             std::string(category_of_kept(exam.heap, site))});
  }
  if (finding.last_step > finding.first_step) {
    finding.bytes_per_step = static_cast<double>(finding.bytes) / (finding.last_step - finding.first_step + 1);
  }
  return finding;
}

std::string rate_text(const Heap& heap, const Finding& finding) {
  const std::string total = fmt::format("{} in {}", size_text(static_cast<double>(finding.bytes)), count_text(finding.blocks, "block"));
  if (heap.process.steps > 0 && finding.bytes_per_step > 0) {
    return fmt::format("{} from step {} to step {}: {} more every step", total, finding.first_step, finding.last_step,
                       size_text(finding.bytes_per_step));
  }
  return total + (heap.process.ended == "running" ? ", and still rising" : ", and still rising when the work ended");
}

}  // namespace vramtrack

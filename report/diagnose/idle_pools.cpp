// Do CUDA's memory pools keep memory that nothing uses? A pool gives what is freed back to the device when the program synchronises,
// down to its release threshold: 0 unless the program raised it. What graphs allocate is kept until it is trimmed.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "report/diagnose/families.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr size_t kFewestPoints = 8;
constexpr double kLastHalf = 0.5;
constexpr double kLeastBytes = 32 << 20;
constexpr double kLeastShare = 0.3;  // of the most it held

// PyTorch's cudaMallocAsync back end raises the threshold of its pool to cache in it; see cached.cpp for that.
constexpr std::array<std::string_view, 2> kCachingLibraries = {"libc10_cuda", "libtorch"};

bool is_set_by_framework(const Heap& heap, const Pool& pool) {
  return std::ranges::any_of(pool.threshold_stack, [&](uint32_t index) {
    if (index >= heap.frames.size()) return false;
    const int module = heap.frames[index].module;
    return module >= 0 && static_cast<size_t>(module) < heap.modules.size() && contains_any(heap.modules[module].path, kCachingLibraries);
  });
}

double second_half_of_work(const Heap& heap) {
  const double from = heap.process.recorded_from;
  return from + kLastHalf * (end_of_work(heap.process) - from);
}

// What it kept through the second half of the run.
uint64_t idle_floor(const Heap& heap, const Pool& pool) {
  const double from = second_half_of_work(heap);
  uint64_t floor = pool.reserved - std::min(pool.reserved, pool.used);
  for (const PoolPoint& point : pool.points) {
    if (point.time >= from) floor = std::min(floor, point.idle_min);
  }
  return floor;
}

// What a graph allocates and frees is in use only while it runs, and each launch needs it again.
bool is_launched_no_more(const Heap& heap, const Pool& pool) { return pool.points.back().time < second_half_of_work(heap); }

Finding idle_pool(const Heap& heap, const Pool& pool, uint64_t idle) {
  const bool is_of_graphs = pool.handle == 0;
  Finding finding;
  finding.id = is_of_graphs ? "cached-unused" : "pool-threshold";
  finding.severity = Severity::kWaste;
  finding.confidence = Confidence::kMedium;
  finding.space = driver_space(heap, pool.device);
  finding.kind = is_of_graphs ? Kind::kGraphMemory : Kind::kStreamOrdered;
  finding.bytes = idle;
  const std::string_view owner = is_of_graphs ? "what graphs allocate from" : "a memory pool";
  finding.title = fmt::format("{} of cuda:{} stay in {} and nothing uses them", size_text(static_cast<double>(idle)), pool.device, owner);
  finding.evidence = {fmt::format("it held {} when last asked, {} of it in use, and at most {} before",
                                  size_text(static_cast<double>(pool.reserved)), size_text(static_cast<double>(pool.used)),
                                  size_text(static_cast<double>(pool.peak_reserved)))};
  if (is_of_graphs) {
    finding.advice = "If others need the device, call `cudaDeviceGraphMemTrim` after the last launch that needs so much.";
    return finding;
  }
  const std::string place = place_text(heap, pool.threshold_stack);
  const bool unlimited = pool.threshold > pool.peak_reserved;
  finding.evidence.push_back(unlimited ? fmt::format("its release threshold was raised without limit at {}", place)
                                       : fmt::format("its release threshold was raised to {} at {}", size_text(static_cast<double>(pool.threshold)), place));
  finding.advice = fmt::format("If others need the device, call `cudaMemPoolTrimTo` after the phase that needs most, or set a lower "
                               "cudaMemPoolAttrReleaseThreshold at {}.", place);
  finding.sites.push_back({0, pool.threshold_stack, idle, 0, 0, 0, ""});
  return finding;
}

}  // namespace

std::vector<Finding> find_idle_pools(Examination& exam) {
  std::vector<Finding> found;
  for (const Pool& pool : exam.heap.pools) {
    const bool may_keep = pool.handle == 0 || (pool.threshold > 0 && !is_set_by_framework(exam.heap, pool));
    if (pool.destroyed || !may_keep || pool.points.size() < kFewestPoints) continue;
    if (pool.handle == 0 && !is_launched_no_more(exam.heap, pool)) continue;
    const uint64_t idle = idle_floor(exam.heap, pool);
    if (static_cast<double>(idle) >= std::max(kLeastBytes, kLeastShare * static_cast<double>(pool.peak_reserved))) {
      found.push_back(idle_pool(exam.heap, pool, idle));
    }
  }
  return found;
}

}  // namespace vramtrack

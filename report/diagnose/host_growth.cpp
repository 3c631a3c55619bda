// Does the process grow on the host alone? Who watches `top` may take it for a leak of the GPU: this says that it is none.
#include <fmt/format.h>

#include <algorithm>

#include "report/diagnose/families.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr size_t kFewestPoints = 20;
constexpr double kFewestSeconds = 30;  // a program that only begins grows all the time
constexpr int kFewestRises = 8;
constexpr double kLeastBytes = 64 << 20;
constexpr double kLeastShare = 0.1;  // of what is resident

uint64_t recorded_on_host(const Heap& heap) {
  uint64_t bytes = 0;
  for (const Space& space : heap.spaces) {
    if (space.memory == Memory::kCpu || space.memory == Memory::kPinnedHost) bytes += space.live_bytes;
  }
  return bytes;
}

}  // namespace

std::vector<Finding> find_host_growth(const Examination& exam, const std::vector<Finding>& found) {
  const std::vector<ResidentPoint>& resident = exam.heap.process.resident;
  const bool has_leak = std::ranges::any_of(found, [](const Finding& finding) { return finding.severity == Severity::kLeak; });
  if (resident.size() < kFewestPoints || has_leak) return {};
  if (resident.back().time - resident.front().time < kFewestSeconds) return {};
  Curve curve;
  for (const ResidentPoint& point : resident) curve.floor.push_back(static_cast<double>(point.bytes));
  const Growth growth = growth_of(curve);
  const double unrecorded = growth.bytes - static_cast<double>(recorded_on_host(exam.heap));
  const double least = std::max(kLeastBytes, kLeastShare * curve.floor.back());
  if (growth.shape != Shape::kRising || !growth.even || growth.rises < kFewestRises || unrecorded < least) return {};
  Finding finding;
  finding.id = "host-growth";
  finding.severity = Severity::kInfo;
  finding.confidence = Confidence::kMedium;
  finding.kind = Kind::kCpu;
  finding.bytes = static_cast<uint64_t>(growth.bytes);
  finding.title = fmt::format("The process grew by {} on the host, not on the GPU: not a GPU leak", size_text(growth.bytes));
  finding.evidence = {fmt::format("resident memory rose from {} to {} in {:.0f} s", size_text(curve.floor.front()), size_text(curve.floor.back()),
                                  resident.back().time - resident.front().time),
                      "no device or pinned memory that is recorded grows with it"};
  finding.advice = "Look for it with a tool for the host: memray or tracemalloc for Python, heaptrack for C and C++.";
  return {finding};
}

}  // namespace vramtrack

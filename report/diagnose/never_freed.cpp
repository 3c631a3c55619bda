// What did a program that ended normally leave allocated, as far as it is known without piling it up? Listed as valgrind lists "still
// reachable": things of the whole run, most often; but a leak that ended before the program did looks the same.
#include <fmt/format.h>

#include <set>

#include "report/diagnose/families.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr uint64_t kManyBlocks = 32;  // more may be the beginning of a leak

// An interpreter's or a framework's memory lives as long as its process by design.
bool is_plain_program(const Process& process) { return process.python_version.empty() && !process.has_torch; }

Finding never_freed(Examination& exam, std::vector<Share> shares) {
  uint64_t blocks = 0;
  for (const Share& share : shares) blocks += share.blocks;
  const Confidence sure = blocks < kManyBlocks ? Confidence::kHigh : Confidence::kMedium;
  Finding finding = make_finding(exam, "never-freed", Severity::kInfo, sure, std::move(shares));
  finding.bytes_per_step = 0;
  const FindingSite& first = finding.sites.front();
  const std::string place = place_among_others(exam.heap, first.stack);
  std::set<std::string> places;
  for (const FindingSite& site : finding.sites) places.insert(call_text(exam.heap, site.stack));
  finding.title = fmt::format("{} allocated at {}{} was never freed", size_text(finding.bytes), place,
                              places.size() < 2 ? "" : " and " + count_text(places.size() - 1, "other place"));
  const bool one_of_each = finding.blocks == finding.sites.size();
  finding.evidence = {"the driver takes it back with the process"};
  if (!one_of_each) {
    uint64_t allocations = 0, frees = 0;
    for (const FindingSite& site : finding.sites) {
      if (place_among_others(exam.heap, site.stack) == place) allocations += site.allocations, frees += site.frees;
    }
    finding.evidence = {fmt::format("at {}: {}, {}", place, count_text(allocations, "allocation"), count_text(frees, "free")),
                        "no steady growth over the run was seen, and the driver takes it back with the process"};
  }
  finding.advice = one_of_each
                       ? "Nothing to fix, unless this code is a library that is unloaded or an object that a longer program makes again."
                       : fmt::format("Nothing to fix if these are made once for the whole run. If {} runs again in a longer program, they pile "
                                     "up: free them when what uses them is done.", place);
  return finding;
}

}  // namespace

std::vector<Finding> find_never_freed(Examination& exam) {
  std::vector<Finding> found;
  if (!exam.heap.process.ended.starts_with("exit:") || !is_plain_program(exam.heap.process)) return found;
  for (int space = 0; space < static_cast<int>(exam.heap.spaces.size()); ++space) {
    if (exam.heap.spaces[space].layer != Layer::kDriver) continue;
    std::vector<Share> shares;
    for (SiteIndex i = 0; i < exam.heap.sites.size(); ++i) {
      const Site& site = exam.heap.sites[i];
      if (!exam.explained[i] && site.space == space && site.live_blocks > 0) shares.push_back({i, site.live_bytes, site.live_blocks});
    }
    if (!shares.empty()) found.push_back(never_freed(exam, std::move(shares)));
  }
  return found;
}

}  // namespace vramtrack

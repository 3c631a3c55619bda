// What did a program that ended normally leave allocated without ever piling it up? Listed as valgrind lists "still reachable".
#include <fmt/format.h>

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
  finding.title = fmt::format("{} of {} were still allocated when the program ended; no steady growth was seen",
                              count_text(finding.blocks, "block"), size_text(finding.bytes));
  finding.evidence = {fmt::format("made at {} and held to the end; the driver takes them back with the process",
                                  place_text(exam.heap, finding.sites.front().stack))};
  finding.advice = "Nothing to fix, unless this code is a library that is unloaded or an object that a longer program makes again.";
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

// Which memory piles up and is given back again and again: bounded, so no leak, but its height is in the peak.
#include <fmt/format.h>

#include "report/diagnose/families.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr double kLeastShare = 0.1;     // of the peak; lower teeth make nobody suspect a leak
constexpr uint64_t kFewestBlocks = 8;   // fewer at once are no accumulation
constexpr int kFewestFalls = 2;         // one fall is not yet "again and again"

bool piles_up(const Examination& exam, SiteIndex i) {
  return exam.heap.sites[i].max_live_blocks >= kFewestBlocks && exam.growth[i].falls >= kFewestFalls;
}

Finding accumulation(Examination& exam, const std::vector<SiteIndex>& sites) {
  std::vector<Share> shares;
  for (SiteIndex i : sites) shares.push_back({i, exam.heap.sites[i].max_live_bytes, exam.heap.sites[i].max_live_blocks});
  const int falls = exam.growth[sites.front()].falls;
  Finding finding = make_finding(exam, "retained-results", Severity::kInfo, Confidence::kMedium, std::move(shares));
  finding.bytes_per_step = 0;
  const std::string place = place_text(exam.heap, finding.sites.front().stack);
  finding.title = fmt::format("Up to {} made at {} pile up and are let go again: bounded, not a leak", size_text(finding.bytes), place);
  finding.evidence = {fmt::format("the floor fell back {} times during the run", falls),
                      fmt::format("at most {} stood at once", count_text(finding.blocks, "block"))};
  finding.advice = "Nothing to fix. If the peak is too high, reduce what is collected (`.item()`, `.cpu()`, running sums) or "
                   "let go of it more often.";
  return finding;
}

}  // namespace

std::vector<Finding> find_bounded_accumulation(Examination& exam) {
  std::vector<Finding> found;
  for (int space = 0; space < static_cast<int>(exam.heap.spaces.size()); ++space) {
    if (exam.heap.spaces[space].layer != Layer::kPytorch) continue;
    std::vector<SiteIndex> sites;
    double height = 0;
    for (SiteIndex i : unexplained(exam, space, Shape::kSawTooth)) {
      if (!piles_up(exam, i)) continue;
      sites.push_back(i);
      height += exam.growth[i].amplitude;
    }
    if (sites.empty() || height < kLeastShare * static_cast<double>(exam.heap.spaces[space].peak_bytes)) continue;
    found.push_back(accumulation(exam, sites));
  }
  return found;
}

}  // namespace vramtrack

// Which memory piles up and is bounded all the same, so no leak, but its height is in the peak: what is given back again and again,
// and what is collected to be joined in the end (`torch.cat` of a data set's predictions).
#include <fmt/format.h>

#include <algorithm>

#include "report/diagnose/families.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr double kLeastShare = 0.1;     // of the peak; lower teeth make nobody suspect a leak
constexpr uint64_t kFewestBlocks = 8;   // fewer at once are no accumulation
constexpr int kFewestFalls = 2;         // one fall is not yet "again and again"
constexpr uint64_t kMostJoins = 2;
constexpr double kLeastOfAll = 0.9;     // of the pieces' bytes, which an allocator rounds up
constexpr double kMostOfAll = 1.02;

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

// One block as large as all of the site's together, made after the last of them. 0: there is none.
const Site* joined_into(const Heap& heap, const Site& pieces) {
  const double all = static_cast<double>(pieces.max_live_bytes);
  const auto at = std::ranges::find_if(heap.sites, [&](const Site& site) {
    const double size = static_cast<double>(site.size_max);
    return site.space == pieces.space && site.allocations <= kMostJoins && site.first_serial > pieces.last_serial &&
           size >= kLeastOfAll * all && size <= kMostOfAll * all;
  });
  return at == heap.sites.end() ? nullptr : &*at;
}

Finding joined(Examination& exam, SiteIndex i, const Site& whole) {
  const Site& pieces = exam.heap.sites[i];
  Finding finding = make_finding(exam, "retained-results", Severity::kInfo, Confidence::kMedium,
                                 {{i, pieces.max_live_bytes, pieces.max_live_blocks}});
  finding.bytes_per_step = 0;
  finding.title = fmt::format("{} collected at {} were joined in the end: not a leak", size_text(finding.bytes),
                              place_text(exam.heap, pieces.stack));
  finding.evidence = {fmt::format("one block of {} was made after the last of them at {}, as large as all together",
                                  size_text(static_cast<double>(whole.size_max)), place_text(exam.heap, whole.stack)),
                      "while they are joined both stand, so the peak holds them twice"};
  finding.advice = "Nothing to fix. If the peak is too high, collect on the host (`.cpu()`), or write into a tensor allocated once.";
  return finding;
}

}  // namespace

std::vector<Finding> find_joined_results(Examination& exam) {
  std::vector<Finding> found;
  for (int space = 0; space < static_cast<int>(exam.heap.spaces.size()); ++space) {
    if (exam.heap.spaces[space].layer != Layer::kPytorch) continue;
    for (SiteIndex i : unexplained(exam, space, Shape::kRising)) {
      const Site& pieces = exam.heap.sites[i];
      const bool in_peak = static_cast<double>(pieces.max_live_bytes) >= kLeastShare * static_cast<double>(exam.heap.spaces[space].peak_bytes);
      const Site* whole = pieces.max_live_blocks >= kFewestBlocks && in_peak ? joined_into(exam.heap, pieces) : nullptr;
      if (whole != nullptr) found.push_back(joined(exam, i, *whole));
    }
  }
  return found;
}

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

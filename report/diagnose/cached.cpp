// What does PyTorch's allocator hold without using it: memory it could give back, or memory in pieces that it cannot?
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "report/diagnose/families.h"
#include "report/diagnose/stranded_stream.h"
#include "report/diagnose/wording.h"
#include "report/segments.h"

namespace vramtrack {
namespace {

constexpr size_t kFewestPoints = 8;
constexpr double kLeastBytes = 128 << 20;    // less is how an allocator rounds
constexpr double kLeastShare = 0.3;          // of what it holds
constexpr double kLastHalf = 0.5;
constexpr double kAfterWarmUp = 0.25;
constexpr double kFlat = 0.1;                // live memory that rises by less than this share
constexpr double kRise = 0.15;               // of what it held
constexpr size_t kFewestRises = 3;
constexpr size_t kNamedBlocks = 3;

// The points of a space's series while its program worked, from this share of the time on.
std::span<const SeriesPoint> working_points(const Heap& heap, const Space& space, double from_share) {
  const double begin = heap.process.recorded_from, end = end_of_work(heap.process), from = begin + from_share * (end - begin);
  const auto first = std::ranges::lower_bound(space.series, from, {}, &SeriesPoint::time);
  const auto last = std::ranges::upper_bound(space.series, end, {}, &SeriesPoint::time);
  return {first, std::max(first, last)};
}

// Held, but in no block, at a moment.
uint64_t unused(const SeriesPoint& at) { return at.reserved_max - std::min(at.reserved_max, at.live_max); }

std::vector<Share> largest_at_peak(const Examination& exam, int space) {
  std::vector<Share> shares;
  for (SiteIndex i = 0; i < exam.heap.sites.size(); ++i) {
    const Site& site = exam.heap.sites[i];
    if (site.space == space && site.peak_bytes > site.end_bytes) shares.push_back({i, site.peak_bytes - site.end_bytes, site.peak_blocks - std::min(site.peak_blocks, site.end_blocks)});
  }
  std::ranges::stable_sort(shares, std::greater<>(), &Share::bytes);
  shares.resize(std::min(shares.size(), kNamedBlocks));
  return shares;
}

// Findings of this file explain no growth: the sites stay as they were.
Finding finding_about(Examination& exam, std::string_view id, Confidence confidence, int space, std::vector<Share> shares) {
  Finding finding;
  const std::vector<bool> explained = exam.explained;
  if (!shares.empty()) finding = make_finding(exam, id, Severity::kWaste, confidence, std::move(shares));
  exam.explained = explained;
  finding.id = id;
  finding.severity = Severity::kWaste;
  finding.confidence = confidence;
  finding.space = space;
  finding.bytes_per_step = 0;
  return finding;
}

// The first moment from which on at least so much was unused.
const SeriesPoint& unused_since(std::span<const SeriesPoint> points, uint64_t bytes) {
  size_t first = points.size();
  while (first > 0 && unused(points[first - 1]) >= bytes) --first;
  return points[std::min(first, points.size() - 1)];
}

std::string moment_text(const SeriesPoint& at) {
  return at.step == 0 ? fmt::format("{:.1f} s", at.time) : fmt::format("step {} ({:.1f} s)", at.step, at.time);
}

// --- memory that could be given back ---------------------------------------------------------------------------------------

Finding unused_cache(Examination& exam, int space, uint64_t bytes) {
  const Space& is = exam.heap.spaces[space];
  const std::span<const SeriesPoint> points = working_points(exam.heap, is, 0);
  Finding finding = finding_about(exam, "cached-unused", Confidence::kMedium, space, largest_at_peak(exam, space));
  finding.bytes = bytes;
  finding.title = fmt::format("PyTorch keeps {} of {} cached that nothing has used since {}", size_text(static_cast<double>(bytes)),
                              device_name(is), moment_text(unused_since(points, bytes)));
  finding.evidence = {fmt::format("it held {} at the end, and never more than {} of it was in use in the second half of the run",
                                  size_text(static_cast<double>(points.back().reserved_max)),
                                  size_text(static_cast<double>(points.back().reserved_max - bytes)))};
  if (!finding.sites.empty()) {
    finding.evidence.push_back(fmt::format("at the peak {} stood more from {}", size_text(static_cast<double>(finding.sites.front().bytes)),
                                           place_text(exam.heap, finding.sites.front().stack)));
  }
  finding.advice = "It costs this program nothing. If others need the device, call `torch.cuda.empty_cache()` once after the phase that "
                   "needs most.";
  return finding;
}

// --- memory in pieces ------------------------------------------------------------------------------------------------------

// Whose blocks keep most, by what their segments hold beside them.
std::vector<Share> pinning_blocks(const Examination& exam, const std::vector<Segment>& segments) {
  std::map<const Site*, Share> by_site;
  for (const Segment& segment : segments) {
    for (const Site* site : segment.pinned_by) {
      Share& share = by_site.try_emplace(site, Share{static_cast<SiteIndex>(site - exam.heap.sites.data()), 0, 0}).first->second;
      share.bytes += (segment.size - std::min(segment.size, segment.live_bytes)) / segment.pinned_by.size();
      ++share.blocks;
    }
  }
  std::vector<Share> shares;
  for (const auto& [site, share] : by_site) shares.push_back(share);
  std::ranges::stable_sort(shares, std::greater<>(), &Share::bytes);
  return shares;
}

void name_pinning_blocks(const Heap& heap, const std::vector<Segment>& segments, Finding& finding) {
  if (segments.empty()) return;
  finding.evidence.push_back(fmt::format("{} are held by {} that live on in them", count_text(segments.size(), "segment"),
                                         count_text(finding.blocks, "block")));
  for (size_t i = 0; i < std::min(kNamedBlocks, finding.sites.size()); ++i) {
    const FindingSite& site = finding.sites[i];
    finding.evidence.push_back(fmt::format("{} of {} beside them", count_text(site.blocks, "block"), place_text(heap, site.stack)));
  }
}

constexpr std::string_view kRemedy =
    "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which needs no whole segments; or make what lives long before what comes "
    "and goes, and use few different sizes.";

Finding fragmentation(Examination& exam, int space, Confidence confidence) {
  const std::vector<Segment> segments = pinned_segments(exam.heap, exam.heap.spaces[space].device);
  Finding finding = finding_about(exam, "fragmentation", confidence, space, pinning_blocks(exam, segments));
  name_pinning_blocks(exam.heap, segments, finding);
  finding.advice = kRemedy;
  return finding;
}

// An allocation was refused although the cache held enough: PyTorch gives whole segments back before it gives up, so what it still
// held were pieces.
std::vector<Finding> refused_for_pieces(Examination& exam, int space) {
  std::vector<Finding> found;
  for (const Incident& incident : exam.heap.incidents) {
    if (incident.kind != IncidentKind::kOutOfMemory || incident.space != space || incident.reserved_bytes < incident.live_bytes) continue;
    const uint64_t unused = incident.reserved_bytes - incident.live_bytes;
    if (unused < incident.size) continue;
    Finding finding = fragmentation(exam, space, Confidence::kHigh);
    finding.bytes = unused;
    finding.title = fmt::format("{} were refused at {} though {} were cached: they lie in pieces", size_text(static_cast<double>(incident.size)),
                                place_text(exam.heap, incident.stack), size_text(static_cast<double>(unused)));
    found.push_back(std::move(finding));
  }
  return found;
}

// What is held rises again and again while what is used does not.
bool rises_over_flat_use(std::span<const SeriesPoint> points) {
  const auto most_used = [](std::span<const SeriesPoint> part) { return static_cast<double>(std::ranges::max(part, {}, &SeriesPoint::live_max).live_max); };
  const std::span<const SeriesPoint> early = points.first(points.size() / 3), late = points.last(points.size() / 3);
  const double before = static_cast<double>(early.front().reserved_max), rise = static_cast<double>(late.back().reserved_max) - before;
  size_t rises = 0, late_rises = 0;
  for (size_t i = 1; i < points.size(); ++i) {
    const bool rose = points[i].reserved_max > points[i - 1].reserved_max;
    rises += rose;
    late_rises += rose && i >= points.size() / 2;
  }
  return rise >= kLeastBytes && rise >= kRise * before && rises >= kFewestRises && late_rises > 0 &&
         most_used(late) < (1 + kFlat) * most_used(early);
}

Finding creeping_fragmentation(Examination& exam, int space, std::span<const SeriesPoint> points) {
  Finding finding = fragmentation(exam, space, Confidence::kMedium);
  finding.bytes = points.back().reserved_max - points.front().reserved_max;
  finding.title = fmt::format("PyTorch's cache on {} grows by {} while what is in use does not: it falls into pieces",
                              device_name(exam.heap.spaces[space]), size_text(static_cast<double>(finding.bytes)));
  finding.evidence.insert(finding.evidence.begin(),
                          fmt::format("from {} to {} it held {} and then {}; at most {} were in use", moment_text(points.front()),
                                      moment_text(points.back()), size_text(static_cast<double>(points.front().reserved_max)),
                                      size_text(static_cast<double>(points.back().reserved_max)),
                                      size_text(static_cast<double>(std::ranges::max(points, {}, &SeriesPoint::live_max).live_max))));
  return finding;
}

// Spaces of PyTorch on a device whose allocator tells what it holds.
std::vector<int> caching_spaces(const Heap& heap) {
  std::vector<int> spaces;
  for (int i = 0; i < static_cast<int>(heap.spaces.size()); ++i) {
    const Space& space = heap.spaces[i];
    if (space.layer == Layer::kPytorch && space.memory == Memory::kDevice && space.reserved_bytes > 0) spaces.push_back(i);
  }
  return spaces;
}

}  // namespace

std::vector<Finding> find_unused_cache(Examination& exam) {
  std::vector<Finding> found;
  for (int space : caching_spaces(exam.heap)) {
    const std::span<const SeriesPoint> points = working_points(exam.heap, exam.heap.spaces[space], kLastHalf);
    if (points.size() < kFewestPoints) continue;
    const uint64_t least = unused(std::ranges::min(points, {}, unused));
    const int device = exam.heap.spaces[space].device;
    const uint64_t told = fragmented_bytes(pinned_segments(exam.heap, device)) + stranded_bytes(exam.heap, device);
    const uint64_t bytes = least - std::min(least, told);
    if (static_cast<double>(bytes) >= std::max(kLeastBytes, kLeastShare * static_cast<double>(points.back().reserved_max))) {
      found.push_back(unused_cache(exam, space, bytes));
    }
  }
  return found;
}

std::vector<Finding> find_fragmentation(Examination& exam) {
  std::vector<Finding> found;
  for (int space : caching_spaces(exam.heap)) {
    std::vector<Finding> refused = refused_for_pieces(exam, space);
    const std::span<const SeriesPoint> points = working_points(exam.heap, exam.heap.spaces[space], kAfterWarmUp);
    if (refused.empty() && points.size() >= kFewestPoints && rises_over_flat_use(points)) {
      refused.push_back(creeping_fragmentation(exam, space, points));
    }
    std::ranges::move(refused, std::back_inserter(found));
  }
  return found;
}

}  // namespace vramtrack

// An allocation was refused for want of memory: what filled the device at that moment?
#include <fmt/format.h>

#include <algorithm>

#include "report/categories.h"
#include "report/diagnose/families.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr size_t kNamedHolders = 3;
constexpr double kOutOfCache = 0.5;  // of what was asked for: cached bytes that would have been enough but for fragmentation

bool is_refusal(const Heap& heap, const Incident& incident) {
  return incident.kind == IncidentKind::kOutOfMemory && incident.space >= 0 &&
         static_cast<size_t>(incident.space) < heap.spaces.size();
}

bool is_of_layer(const Heap& heap, const Incident& incident, Layer layer) {
  return is_refusal(heap, incident) && heap.spaces[static_cast<size_t>(incident.space)].layer == layer;
}

// A caching allocator that the driver refuses empties its cache and asks again; the program saw nothing unless the
// allocator itself gave up, and then that refusal tells more.
bool was_seen_by_the_program(const Heap& heap, const Incident& incident) {
  if (!is_of_layer(heap, incident, Layer::kDriver)) return true;
  Site asked_by;
  asked_by.space = incident.space;
  asked_by.stack = incident.stack;
  return !is_framework_segment(heap, asked_by);
}

// The worst finding that has one of the largest holders among its sites.
const Finding* explaining(const std::vector<Finding>& found, const Incident& incident) {
  const Finding* best = nullptr;
  for (const Finding& finding : found) {
    const bool holds = std::ranges::any_of(incident.top, [&](const TopSite& top) {
      return std::ranges::any_of(finding.sites, [&](const FindingSite& site) { return site.site == top.site; });
    });
    if (holds && (best == nullptr || std::pair(finding.severity, finding.bytes) > std::pair(best->severity, best->bytes))) best = &finding;
  }
  return best;
}

std::vector<FindingSite> holders_of(const Heap& heap, const Incident& incident) {
  std::vector<FindingSite> holders;
  for (const TopSite& top : incident.top) {
    const Site* site = find_site(heap, top.site);
    if (site == nullptr) continue;
    holders.push_back({site->id, site->stack, top.bytes, 0, site->allocations, site->frees, std::string(category(heap, *site))});
  }
  return holders;
}

std::string shortage(const Heap& heap, const Incident& incident) {
  const Space& space = heap.spaces[static_cast<size_t>(incident.space)];
  std::string text = fmt::format("asked for {}", size_text(incident.size));
  text += fmt::format("; {} were live on {}", size_text(incident.live_bytes), device_name(space));
  if (incident.reserved_bytes > incident.live_bytes) {
    text += fmt::format(", {} more cached", size_text(incident.reserved_bytes - incident.live_bytes));
  }
  return text;
}

bool cache_would_have_done(const Incident& incident) {
  return incident.reserved_bytes > incident.live_bytes &&
         static_cast<double>(incident.reserved_bytes - incident.live_bytes) > kOutOfCache * static_cast<double>(incident.size);
}

Finding out_of_memory(const Examination& exam, const Incident& incident, const std::vector<Finding>& found) {
  const Heap& heap = exam.heap;
  Finding finding;
  finding.id = "out-of-memory";
  finding.severity = Severity::kInfo;
  finding.confidence = Confidence::kHigh;
  finding.space = incident.space;
  finding.bytes = incident.size;
  finding.first_step = incident.first_step;
  finding.last_step = incident.last_step;
  const std::string by = incident.api.empty() ? "" : fmt::format(" with {}", incident.api);
  finding.title = fmt::format("{} asked for{} at {} were refused: out of memory", size_text(incident.size), by, place_text(heap, incident.stack));
  finding.evidence = {shortage(heap, incident)};
  if (incident.count > 1) finding.evidence.push_back(fmt::format("refused {} times, these are the numbers of the last", incident.count));
  finding.sites = holders_of(heap, incident);
  const bool is_absurd = incident.total_bytes > 0 && incident.size > incident.total_bytes;
  if (is_absurd) finding.evidence.push_back(fmt::format("the device has {} in all", size_text(incident.total_bytes)));
  for (size_t i = 0; !is_absurd && i < std::min(kNamedHolders, finding.sites.size()); ++i) {
    const FindingSite& holder = finding.sites[i];
    finding.evidence.push_back(fmt::format("{} held by {}{}", size_text(holder.bytes), place_text(heap, holder.stack),
                                           holder.category.empty() ? "" : " (" + holder.category + ")"));
  }
  if (finding.sites.empty()) finding.sites.push_back({0, incident.stack, incident.size, 0, 0, 0, ""});
  const Finding* cause = is_absurd ? nullptr : explaining(found, incident);
  if (cause != nullptr) finding.evidence.push_back(fmt::format("what filled it is explained by {}: {}", cause->id, cause->title));
  finding.advice = is_absurd ? "Look at how the size is computed: a negative count, bytes taken for elements, a shape that is not set."
                   : cause != nullptr && cause->severity != Severity::kInfo ? cause->advice
                   : cache_would_have_done(incident)
                       ? "Much of the memory is cached but in pieces: try `expandable_segments:True` or `max_split_size_mb`."
                       : "Nothing leaks: use a smaller batch, mixed precision or gradient checkpointing, or free what is named above.";
  return finding;
}

}  // namespace

std::vector<Finding> find_out_of_memory(const Examination& exam, const std::vector<Finding>& found) {
  std::vector<Finding> refusals;
  for (const Incident& incident : exam.heap.incidents) {
    if (is_refusal(exam.heap, incident) && was_seen_by_the_program(exam.heap, incident)) {
      refusals.push_back(out_of_memory(exam, incident, found));
    }
  }
  return refusals;
}

}  // namespace vramtrack

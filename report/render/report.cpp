// What of a process the user asked to see.
#include "report/render/report.h"

#include <algorithm>

namespace vramtrack {
namespace {

bool is_selected_space(const Selection& wanted, const Heap& heap, int index) {
  if (index < 0 || static_cast<size_t>(index) >= heap.spaces.size()) return wanted.device.empty() && !wanted.layer;
  const Space& space = heap.spaces[index];
  if (wanted.space && *wanted.space != static_cast<size_t>(index)) return false;
  return (wanted.device.empty() || wanted.device == device_name(space)) && (!wanted.layer || *wanted.layer == space.layer);
}

}  // namespace

uint64_t frees_while_working(const Site& site) { return site.allocations - std::min(site.allocations, site.end_blocks); }

uint64_t bytes_at(const Site& site, Moment moment) { return moment == Moment::kPeak ? site.peak_bytes : site.end_bytes; }

uint64_t blocks_at(const Site& site, Moment moment) { return moment == Moment::kPeak ? site.peak_blocks : site.end_blocks; }

bool is_selected(const Selection& wanted, const Heap& heap, const Finding& finding) {
  return (finding.bytes >= wanted.min_bytes || is_handle(finding.kind)) && (!wanted.kind || *wanted.kind == finding.kind) &&
         is_selected_space(wanted, heap, finding.space);
}

std::vector<const Site*> top_sites(const Selection& wanted, const Heap& heap, Moment moment, size_t top) {
  std::vector<const Site*> sites;
  for (const Site& site : heap.sites) {
    bool shown = bytes_at(site, moment) != 0 && bytes_at(site, moment) >= wanted.min_bytes &&
                 (!wanted.kind || *wanted.kind == site.kind) && is_selected_space(wanted, heap, site.space);
    if (shown) sites.push_back(&site);
  }
  std::ranges::stable_sort(sites, std::ranges::greater(), [moment](const Site* site) { return bytes_at(*site, moment); });
  if (sites.size() > top) sites.resize(top);
  return sites;
}

}  // namespace vramtrack

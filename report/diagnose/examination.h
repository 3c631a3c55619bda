// What the families of findings share while one heap is examined: how each site grew, and what is explained already.
//
// The families are asked in the order of the table in diagnose.cpp. One that explains a site's growth takes the site out of
// the examination, so that one cause makes one finding and no later family blames the same bytes on something else.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/diagnose/finding.h"
#include "report/diagnose/growth.h"
#include "report/heap.h"

namespace vramtrack {

using SiteIndex = size_t;  // into Heap::sites

struct Examination {
  const Heap& heap;
  std::vector<Growth> growth;    // of each site
  std::vector<Growth> growth_of_handles;  // of each site of handles
  std::vector<bool> explained;   // each site
};

Examination examine(const Heap&);

// A family: from a heap to findings of one kind of cause.
using Family = std::vector<Finding> (*)(Examination&);

// --- which sites --------------------------------------------------------------------------------------------------------

const Space& space_of(const Heap&, const Site&);

// Sites of one space, not explained yet, whose growth has this shape; largest first.
std::vector<SiteIndex> unexplained(const Examination&, int space, Shape);

// A caching allocator's segment: the framework's own layer accounts for what lies in it.
bool is_framework_segment(const Heap&, const Site&);

// --- how much -----------------------------------------------------------------------------------------------------------

// What a growing site holds when the work ends; what it had piled up if the program's end took it away.
uint64_t held_bytes(const Examination&, SiteIndex);
uint64_t held_blocks(const Examination&, SiteIndex);

// A span of the process's allocations, handles included, by their serials.
struct Span {
  uint64_t first = UINT64_MAX, last = 0;
};
void extend(Span&, const Site&);  // to all of the site's allocations

// Share of the span's allocations that growing sites made and kept. Near 1: nothing came and went meanwhile, so what was made then
// was made in one go, before whatever used it.
double density_of(const Examination&, const Span&);

// Enough to be called a leak: it grows without bound, but a person should only be sent after what will matter to them.
bool is_worth_a_leak(const Heap&, int space, double bytes);

// --- the finding --------------------------------------------------------------------------------------------------------

// What one site contributes to a finding.
struct Share {
  SiteIndex site;
  uint64_t bytes, blocks;
};

// A finding over these sites of one space, worst first, with its sums and its rate; the sites count as explained.
Finding make_finding(Examination&, std::string_view id, Severity, Confidence, std::vector<Share>);

// All that the growing sites hold.
std::vector<Share> shares_held(const Examination&, std::span<const SiteIndex>);

// "+17.2 MiB per step" or, where no steps are known, "312 blocks of 4.0 KiB since allocation 12".
std::string rate_text(const Heap&, const Finding&);

}  // namespace vramtrack

// What lies in the segments that a caching allocator took from the driver? See segments.h.
#include "report/segments.h"

#include <algorithm>

namespace vramtrack {
namespace {

// Known by an address, so that others can lie in it.
bool has_address(Kind kind) { return kind == Kind::kDevice || kind == Kind::kStreamOrdered || kind == Kind::kManaged; }

bool is_of(const Heap& heap, const Site& site, Layer layer, int device) {
  const Space& space = heap.spaces[site.space];
  return space.layer == layer && space.memory == Memory::kDevice && space.device == device;
}

std::vector<Segment> drivers_blocks(const Heap& heap, int device) {
  std::vector<Segment> blocks;
  for (const Site& site : heap.sites) {
    if (!is_of(heap, site, Layer::kDriver, device) || !has_address(site.kind)) continue;
    for (const Block& block : site.survivors) blocks.push_back({&site, block.address, block.size, 0, {}});
  }
  std::ranges::sort(blocks, {}, &Segment::address);
  return blocks;
}

// Null: it lies in none of them.
Segment* around(std::vector<Segment>& segments, uint64_t address) {
  auto after = std::ranges::upper_bound(segments, address, {}, &Segment::address);
  if (after == segments.begin()) return nullptr;
  Segment& before = *std::prev(after);
  return address - before.address < before.size ? &before : nullptr;
}

}  // namespace

std::vector<Segment> pinned_segments(const Heap& heap, int device) {
  std::vector<Segment> segments = drivers_blocks(heap, device);
  for (const Site& site : heap.sites) {
    if (!is_of(heap, site, Layer::kPytorch, device)) continue;
    for (const Block& block : site.survivors) {
      Segment* segment = around(segments, block.address);
      if (segment == nullptr) continue;
      segment->live_bytes += block.size;
      segment->pinned_by.push_back(&site);
    }
  }
  std::erase_if(segments, [](const Segment& segment) { return segment.pinned_by.empty(); });
  return segments;
}

uint64_t fragmented_bytes(const std::vector<Segment>& segments) {
  uint64_t bytes = 0;
  for (const Segment& segment : segments) bytes += segment.size - std::min(segment.size, segment.live_bytes);
  return bytes;
}

}  // namespace vramtrack

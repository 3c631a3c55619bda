// What lies in the segments that a caching allocator took from the driver? A segment goes back to the device only as a whole: one small
// block in it keeps all of it.
#pragma once

#include <cstdint>
#include <vector>

#include "report/heap.h"

namespace vramtrack {

struct Segment {
  const Site* made_by = nullptr;  // of the driver's layer
  uint64_t address = 0, size = 0;
  uint64_t live_bytes = 0;                // of the framework's blocks in it, when the program's work ended
  std::vector<const Site*> pinned_by;     // whose they are, one entry a block
};

// The driver's blocks on a device in which blocks of PyTorch lie, by address. Segments of PyTorch that are wholly free are not among
// them, nor is what has no address of its own (expandable segments).
std::vector<Segment> pinned_segments(const Heap&, int device);

// What these hold beyond the blocks in them: `empty_cache()` cannot give it back.
uint64_t fragmented_bytes(const std::vector<Segment>&);

}  // namespace vramtrack

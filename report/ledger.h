// Where the bytes of each device are: used and free for reuse, by whom, at the end and at the peak.
//
// The end is where the program's work ended: what it frees on its way out it held all the while.
// The layers overlap: the segments PyTorch's allocator takes from the driver are blocks of the driver's layer, and its tensors
// lie in them. A device's row counts every byte once.
#pragma once

#include <string>
#include <vector>

#include "report/heap.h"

namespace vramtrack {

struct LedgerRow {
  std::string device;  // "cuda:0", "pinned", "cpu"
  std::string name;
  uint64_t total_bytes = 0;  // of the device, 0 = not known
  uint64_t live_bytes = 0;   // in blocks that the program held when its work ended, before it tore itself down
  uint64_t live_blocks = 0;
  uint64_t managed_bytes = 0;  // of these, in managed blocks: on the device as far as they were used there
  uint64_t exit_bytes = 0;   // of live_bytes, what the teardown left
  bool let_go = false;       // the program itself freed most of these after its last allocation
  uint64_t cached_bytes = 0;  // held by a framework's allocator or the driver's pools, free for the next block
  uint64_t pooled_bytes = 0;  // of these, in the driver's pools
  uint64_t fragmented_bytes = 0;  // of these, in segments that blocks lie in: they cannot be given back to the device
  uint64_t used_bytes = 0;    // by the process, as nvidia-smi shows it when last measured; else live + cached
  bool is_measured = false;
  uint64_t peak_bytes = 0;    // the highest that the outermost layer seen held
  double peak_time = 0;
  uint32_t peak_step = 0;
  uint64_t allocations = 0, frees = 0, failed_allocations = 0;  // calls, over all layers
  uint64_t imported_bytes = 0;  // of other processes, mapped here: not in the others
  // Of what is used, but in no block: the least that was measured (the context, loaded code), and what was above
  // that at last.
  uint64_t context_bytes = 0, unattributed_bytes = 0;
};

// What the sites of a space held when the program's work ended.
struct EndTotal {
  uint64_t bytes = 0, blocks = 0;
  uint64_t let_go_blocks = 0;  // of these, by the program itself, after its last allocation
};
EndTotal end_total(const Heap&, const Space&);

// One row per device, in the order of the heap's spaces.
std::vector<LedgerRow> ledger(const Heap&);

// Live handles of one kind, which take memory that no allocation shows.
struct HandleRow {
  std::string device;
  Kind kind = Kind::kStream;
  uint64_t live = 0;  // when the work ended
  uint64_t made = 0;
};

// By device and kind; kinds of which none was made are not there.
std::vector<HandleRow> handle_counts(const Heap&);

}  // namespace vramtrack

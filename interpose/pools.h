// What do the driver's pools hold beyond what is in use?
//
// A pool keeps what is freed into it, and gives it back to the device when the program synchronises, down to its threshold. No
// allocation shows that. So the driver is asked, after an allocation or a free of a pool's memory: each time at first, then a few
// times a second, so that a program that allocates every microsecond does not notice.
//
// Thread-safety: everything may be called from any thread. Bounded: beyond kMaxPools at a time, new ones are not followed.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/capture_file.h"
#include "interpose/lock.h"

namespace vramtrack {

inline constexpr uint32_t kMaxPools = 64;

struct PoolSlot {
  std::atomic<uint64_t> key;      // 0 = free. The handle, or graph_pool_key() of events.h
  std::atomic<uint32_t> due_ms;   // ask again from then on
  std::atomic<int64_t> live;      // bytes of its blocks that were seen to be allocated and not freed
  std::atomic<int64_t> most;      // the most of that since the last sample
  uint32_t record;                // in the capture; 0 = not followed
  int device;                     // ordinal; -1 = host memory
};

struct Pools {
  Lock lock;
  std::atomic<bool> overflown;  // there were more than are followed
  PoolSlot slots[kMaxPools];
};

// Null: it is not known. No lock.
PoolSlot* find_pool(Pools&, uint64_t key);

// Notes a pool before its first use. Of one that belongs to another process the driver is never asked.
void add_pool(Pools&, CaptureFile&, uint64_t key, int device, bool is_foreign);
void remove_pool(Pools&, CaptureFile&, uint64_t key);

void note_threshold(Pools&, CaptureFile&, uint64_t key, uint64_t bytes, uint32_t stack, uint32_t api);

// So many bytes more are in use, or less.
void note_use(PoolSlot&, int64_t change);

// True for one of the threads that ask at a time when an answer is wanted.
bool is_due(PoolSlot&, uint32_t now_ms);
void add_sample(Pools&, CaptureFile&, uint64_t key, uint64_t reserved, uint64_t used, uint32_t now_ms);

}  // namespace vramtrack

// What do the driver's pools of a device hold, and how much of that does nothing use? See pools.h.
#include "report/pools.h"

#include <algorithm>

namespace vramtrack {
namespace {

// Of its blocks, when the program's work ended.
uint64_t live_in(const Heap& heap, const Pool& pool) {
  if (pool.handle == 0) return pool.used;
  uint64_t bytes = 0;
  for (const Site& site : heap.sites) {
    if (site.kind != Kind::kStreamOrdered) continue;
    for (const Block& block : site.survivors) bytes += block.owner == pool.handle ? block.size : 0;
  }
  return bytes;
}

// Null: it was not there yet, or no more.
const PoolPoint* at(const Pool& pool, double time) {
  const auto point = std::ranges::lower_bound(pool.points, time, {}, &PoolPoint::time);
  if (pool.points.empty() || time < pool.points.front().time) return nullptr;
  if (point != pool.points.end()) return &*point;
  return pool.destroyed ? nullptr : &pool.points.back();
}

}  // namespace

uint64_t idle_in_pools(const Heap& heap, int device) {
  uint64_t idle = 0;
  for (const Pool& pool : heap.pools) {
    if (pool.device == device && !pool.destroyed) idle += pool.reserved - std::min(pool.reserved, live_in(heap, pool));
  }
  return idle;
}

uint64_t reserved_in_pools(const Heap& heap, int device, double time) {
  uint64_t reserved = 0;
  for (const Pool& pool : heap.pools) {
    const PoolPoint* point = pool.device == device ? at(pool, time) : nullptr;
    if (point != nullptr) reserved += point->idle_min + point->used_max;
  }
  return reserved;
}

}  // namespace vramtrack

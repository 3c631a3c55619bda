// What do the driver's pools of a device hold that nothing uses? See pools.h.
#include "report/pools.h"

#include <algorithm>

namespace vramtrack {

uint64_t idle_in_pools(const Heap& heap, int device) {
  uint64_t idle = 0;
  for (const Pool& pool : heap.pools) {
    if (pool.device == device && !pool.destroyed) idle += pool.reserved - std::min(pool.reserved, pool.used);
  }
  return idle;
}

uint64_t idle_in_pools(const Heap& heap, int device, double time) {
  uint64_t idle = 0;
  for (const Pool& pool : heap.pools) {
    if (pool.device != device) continue;
    // The first point that ends at that time or later; the last one stands for what follows.
    auto at = std::ranges::lower_bound(pool.points, time, {}, &PoolPoint::time);
    if (at == pool.points.begin() && !pool.points.empty() && at->time > time) continue;  // not there yet
    if (at == pool.points.end() && !pool.points.empty()) --at;
    if (at != pool.points.end() && !(pool.destroyed && at + 1 == pool.points.end() && at->time < time)) idle += at->idle_min;
  }
  return idle;
}

}  // namespace vramtrack

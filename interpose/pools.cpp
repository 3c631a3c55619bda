// What do the driver's pools hold beyond what is in use? See pools.h.
#include "interpose/pools.h"

#include <algorithm>

namespace vramtrack {
namespace {

using format::kPoolPoints;
using format::Pool;
using format::PoolPoint;

constexpr uint32_t kFirstSamples = 64;  // before it gets seldom: a short program is seen as well
constexpr uint32_t kPauseMs = 100;
constexpr uint32_t kNever = UINT32_MAX;

Pool& pool_record(const CaptureFile& file, uint32_t id) { return record<Pool>(file, format::kPools, id); }

void merge(PoolPoint& into, const PoolPoint& later) {
  into.idle_min = std::min(into.idle_min, later.idle_min);
  into.used_max = std::max(into.used_max, later.used_max);
  into.time_ms = later.time_ms;
}

void add_point(Pool& pool, const PoolPoint& now) {
  while ((pool.samples >> pool.scale) >= kPoolPoints) {
    for (uint32_t i = 0; i < kPoolPoints / 2; i++) {
      pool.point[i] = pool.point[2 * i];
      merge(pool.point[i], pool.point[2 * i + 1]);
    }
    pool.scale++;
  }
  PoolPoint& at = pool.point[pool.samples >> pool.scale];
  const bool is_new = (pool.samples & ((1u << pool.scale) - 1)) == 0;
  if (is_new) at = now;
  else merge(at, now);
  pool.samples++;
}

}  // namespace

PoolSlot* find_pool(Pools& pools, uint64_t key) {
  for (PoolSlot& slot : pools.slots)
    if (slot.key.load(std::memory_order_acquire) == key) return &slot;  // pairs with add_pool
  return nullptr;
}

void add_pool(Pools& pools, CaptureFile& file, uint64_t key, int device, bool is_foreign) {
  Locked hold(pools.lock);
  if (find_pool(pools, key)) return;
  PoolSlot* slot = find_pool(pools, 0);
  if (!slot) return pools.overflown.store(true, std::memory_order_relaxed);
  Pool pool = {};
  pool.handle = key >> 63 ? 0 : key;
  pool.device = static_cast<int16_t>(device);
  slot->record = is_foreign ? 0 : append(file, format::kPools, &pool);
  slot->device = device;
  slot->live.store(0, std::memory_order_relaxed);
  slot->most.store(0, std::memory_order_relaxed);
  slot->due_ms.store(slot->record ? 0 : kNever, std::memory_order_relaxed);
  slot->key.store(key, std::memory_order_release);  // pairs with find_pool
}

void remove_pool(Pools& pools, CaptureFile& file, uint64_t key) {
  Locked hold(pools.lock);
  PoolSlot* slot = find_pool(pools, key);
  if (!slot) return;
  if (slot->record) pool_record(file, slot->record).destroyed = 1;
  slot->key.store(0, std::memory_order_relaxed);
}

void note_threshold(Pools& pools, CaptureFile& file, uint64_t key, uint64_t bytes, uint32_t stack, uint32_t api) {
  Locked hold(pools.lock);
  const PoolSlot* slot = find_pool(pools, key);
  if (!slot || !slot->record) return;
  Pool& pool = pool_record(file, slot->record);
  pool.threshold = bytes;
  pool.threshold_stack = stack;
  pool.threshold_api = api;
}

void note_use(PoolSlot& slot, int64_t change) {
  const int64_t live = slot.live.fetch_add(change, std::memory_order_relaxed) + change;
  int64_t most = slot.most.load(std::memory_order_relaxed);
  while (live > most && !slot.most.compare_exchange_weak(most, live, std::memory_order_relaxed)) {
  }
}

bool is_due(PoolSlot& slot, uint32_t now_ms) {
  uint32_t due = slot.due_ms.load(std::memory_order_relaxed);
  return now_ms >= due && slot.due_ms.compare_exchange_strong(due, kNever, std::memory_order_relaxed);
}

void add_sample(Pools& pools, CaptureFile& file, uint64_t key, uint64_t reserved, uint64_t used, uint32_t now_ms) {
  Locked hold(pools.lock);
  PoolSlot* slot = find_pool(pools, key);
  if (!slot || !slot->record) return;
  Pool& pool = pool_record(file, slot->record);
  pool.reserved = reserved;
  pool.used = used;
  pool.peak_reserved = std::max(pool.peak_reserved, reserved);
  // Between two samples more may have been in use than at either.
  const int64_t most = slot->most.exchange(slot->live.load(std::memory_order_relaxed), std::memory_order_relaxed);
  const uint64_t used_max = std::max(used, static_cast<uint64_t>(std::max<int64_t>(most, 0)));
  add_point(pool, {reserved - std::min(reserved, used_max), used_max, now_ms, 0});
  slot->due_ms.store(pool.samples < kFirstSamples ? now_ms : now_ms + kPauseMs, std::memory_order_relaxed);
}

}  // namespace vramtrack

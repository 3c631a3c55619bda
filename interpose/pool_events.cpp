// What do the pools of stream-ordered memory mean to the recording? See events.h and pools.h.
#include "interpose/call.h"
#include "interpose/events_internal.h"

namespace vramtrack {

void pool_made(const PoolReport& pool) {
  OwnWork work;
  Recording* r = work.entered() && pool.key ? recording_for_event() : nullptr;
  if (r) add_pool(r->pools, r->file, pool.key, pool.device, pool.is_foreign);
}

void pool_gone(uint64_t key) {
  OwnWork work;
  if (Recording* r = work.entered() ? present_recording() : nullptr) remove_pool(r->pools, r->file, key);
}

PoolWants pool_used(uint64_t key, int64_t change) {
  Recording* r = present_recording();
  if (!r) return PoolWants::kDescription;
  PoolSlot* slot = find_pool(r->pools, key);
  if (!slot) return r->pools.overflown.load(std::memory_order_relaxed) ? PoolWants::kNothing : PoolWants::kDescription;
  if (change) note_use(*slot, change);
  return is_due(*slot, time_of_last_event(*r)) ? PoolWants::kMeasure : PoolWants::kNothing;
}

int device_of_pool(uint64_t key, int otherwise) {
  Recording* r = present_recording();
  const PoolSlot* slot = r ? find_pool(r->pools, key) : nullptr;
  return slot ? slot->device : otherwise;
}

void pool_measured(uint64_t key, uint64_t reserved, uint64_t used) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (r) add_sample(r->pools, r->file, key, reserved, used, time_of_last_event(*r));
}

void pool_threshold_set(uint64_t key, uint64_t bytes) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (!r) return;
  const char* api = Call::outermost().api;
  note_threshold(r->pools, r->file, key, bytes, driver_origin(*r).stack.id, api ? intern_string(r->interner, api) : 0);
}

}  // namespace vramtrack

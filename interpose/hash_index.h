// A map from 64-bit keys to 32-bit values in private memory: grows by doubling, is never shrunk, reads take no lock.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/hash.h"
#include "interpose/private_memory.h"

namespace vramtrack {

// One writer at a time (the owner's lock); any number of readers. Zeroed memory is an empty index. A table outgrown stays
// mapped, since a reader may still be in it: all together they are smaller than the newest.
class HashIndex {
 public:
  // 0 = not there.
  uint32_t find(uint64_t key) const {
    const Slots* slots = slots_.load(std::memory_order_acquire);  // pairs with grow
    if (!slots) return 0;
    key = nonzero(key);
    for (uint64_t i = home(*slots, key);; i = (i + 1) & slots->mask) {
      const uint64_t seen = slots->slot[i].key.load(std::memory_order_acquire);  // pairs with put
      if (seen == key) return slots->slot[i].value;
      if (seen == 0) return 0;
    }
  }

  // `value` is not 0 and `key` not there yet. False: no memory; the index is as it was.
  bool insert(uint64_t key, uint32_t value) {
    Slots* slots = slots_.load(std::memory_order_relaxed);
    if ((!slots || (used_ + 1) * 2 > slots->mask + 1) && !(slots = grow(slots))) return false;
    put(*slots, nonzero(key), value);
    used_++;
    return true;
  }

  void clear() {  // readers that are in it finish in the old table
    slots_.store(nullptr, std::memory_order_release);
    used_ = 0;
  }

 private:
  struct Slot {
    std::atomic<uint64_t> key;
    uint32_t value;
  };
  struct Slots {
    uint64_t mask;
    Slot slot[];
  };
  static constexpr uint64_t kFirstSlots = 1024;

  static uint64_t nonzero(uint64_t key) { return key ? key : 1; }
  static uint64_t home(const Slots& slots, uint64_t key) { return hash_mix(0, key) & slots.mask; }

  static void put(Slots& slots, uint64_t key, uint32_t value) {
    uint64_t i = home(slots, key);
    while (slots.slot[i].key.load(std::memory_order_relaxed)) i = (i + 1) & slots.mask;
    slots.slot[i].value = value;
    slots.slot[i].key.store(key, std::memory_order_release);  // pairs with find
  }

  Slots* grow(const Slots* old) {
    const uint64_t count = old ? (old->mask + 1) * 2 : kFirstSlots;
    auto* fresh = static_cast<Slots*>(map_private(sizeof(Slots) + count * sizeof(Slot)));
    if (!fresh) return nullptr;
    fresh->mask = count - 1;
    for (uint64_t i = 0; old && i <= old->mask; i++)
      if (const uint64_t key = old->slot[i].key.load(std::memory_order_relaxed)) put(*fresh, key, old->slot[i].value);
    slots_.store(fresh, std::memory_order_release);  // pairs with find
    return fresh;
  }

  std::atomic<Slots*> slots_;
  uint64_t used_;
};

}  // namespace vramtrack

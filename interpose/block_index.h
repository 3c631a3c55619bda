// From an address to its live block's record: open addressing in private memory, one lock-holder at a time.
#pragma once

#include <cstdint>

#include "interpose/hash.h"
#include "interpose/private_memory.h"

namespace vramtrack {

// Zeroed memory is an empty index. Deletion shifts later entries back, so that no tombstones slow a long run down.
class BlockIndex {
 public:
  // The block at `address`; 0 = none.
  uint32_t find(uint64_t address) const {
    if (!slots_) return 0;
    const uint64_t i = position(address);
    return slots_[i].block;
  }

  // `address` is not in the index. False: no memory.
  bool insert(uint64_t address, uint32_t block) {
    if ((used_ + 1) * 4 > capacity_ * 3 && !grow()) return false;
    slots_[position(address)] = {address, block};
    used_++;
    return true;
  }

  void erase(uint64_t address) {
    if (!slots_) return;
    uint64_t hole = position(address);
    if (!slots_[hole].block) return;
    used_--;
    for (uint64_t i = next(hole); slots_[i].block; i = next(i)) {
      // An entry may move back into the hole unless its home lies (cyclically) after the hole.
      const uint64_t distance_home = (i - home(slots_[i].address)) & (capacity_ - 1);
      const uint64_t distance_hole = (i - hole) & (capacity_ - 1);
      if (distance_home < distance_hole) continue;
      slots_[hole] = slots_[i];
      hole = i;
    }
    slots_[hole] = {};
  }

 private:
  struct Slot {
    uint64_t address;
    uint32_t block;  // 0 = empty
  };
  static constexpr uint64_t kFirstSlots = 2048;

  uint64_t home(uint64_t address) const { return hash_mix(0, address) & (capacity_ - 1); }
  uint64_t next(uint64_t i) const { return (i + 1) & (capacity_ - 1); }

  uint64_t position(uint64_t address) const {
    uint64_t i = home(address);
    while (slots_[i].block && slots_[i].address != address) i = next(i);
    return i;
  }

  bool grow() {
    const uint64_t count = capacity_ ? capacity_ * 2 : kFirstSlots;
    auto* fresh = static_cast<Slot*>(map_private(count * sizeof(Slot)));
    if (!fresh) return false;
    Slot* old = slots_;
    const uint64_t old_count = capacity_;
    slots_ = fresh;
    capacity_ = count;
    for (uint64_t i = 0; i < old_count; i++)
      if (old[i].block) slots_[position(old[i].address)] = old[i];
    unmap_private(old, old_count * sizeof(Slot));
    return true;
  }

  Slot* slots_;
  uint64_t capacity_, used_;
};

}  // namespace vramtrack

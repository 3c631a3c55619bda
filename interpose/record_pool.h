// Records of one kind in private memory, known by number: taken, given back, taken again. Zeroed memory is an empty pool.
//
// Not thread-safe: its owner's lock guards it. A free record is linked through its own `next`.
#pragma once

#include <cstdint>

#include "interpose/private_memory.h"

namespace vramtrack {

template <class Record, uint32_t kMost>
class RecordPool {
 public:
  // Its number; 0 = there is no room. The record has whatever it had before.
  uint32_t take() {
    if (const uint32_t id = first_free_) {
      first_free_ = records_[id].next;
      return id;
    }
    if (!records_) records_ = static_cast<Record*>(map_private(kMost * sizeof(Record)));  // address space, until it is used
    return records_ && used_ + 1 < kMost ? ++used_ : 0;
  }

  void give_back(uint32_t id) {
    records_[id] = {};
    records_[id].next = first_free_;
    first_free_ = id;
  }

  Record& operator[](uint32_t id) { return records_[id]; }
  const Record& operator[](uint32_t id) const { return records_[id]; }
  uint32_t used() const { return used_; }  // the highest number ever taken

 private:
  Record* records_;
  uint32_t used_, first_free_;
};

}  // namespace vramtrack

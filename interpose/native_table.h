// How does a thread remember the stacks that it has unwound?
//
// A ring of entries of different sizes, and buckets of chains through it. New entries go to the front of their chain, and
// the ring forgets the oldest first, so what is forgotten is always the last of its chain.
#pragma once

#include "interpose/native_stack.h"
#include "interpose/thread_stack.h"

#include <cstdint>

namespace vramtrack {

// Followed by `check_count` expected values (8 bytes each), `frame_count` frame ids and `check_count` places, the latter in
// words above the wrapper's frame.
struct NativeEntry {
  CallSite site;
  uint64_t hash;
  uint32_t next;  // in the chain: place in the ring, 0 = none
  uint32_t size;  // bytes, all included; a multiple of 8
  uint16_t bucket;
  uint16_t check_count;
  uint16_t frame_count;
  bool reached_python;

  uint64_t* values() { return reinterpret_cast<uint64_t*>(this + 1); }
  uint32_t* frames() { return reinterpret_cast<uint32_t*>(values() + check_count); }
  uint16_t* places() { return reinterpret_cast<uint16_t*>(frames() + frame_count); }
};
static_assert(sizeof(NativeEntry) % 8 == 0);

// A stack as the unwinder gave it.
struct UnwoundStack {
  UnwoundFrame frames[kMaxNativeDepth + 1];
  uint32_t count;        // with the interpreter's frame, where it was reached
  uint32_t shown_count;  // without it
  bool reached_python;
};

inline constexpr uint32_t kMaxChecks = 2 * (kMaxNativeDepth + 1);

// The words whose values say that the stack is still the same, as they are collected from an unwound stack.
struct StackChecks {
  uintptr_t begin, end;  // words outside are not to be read
  uint32_t count;
  uint64_t values[kMaxChecks];
  uint16_t places[kMaxChecks];

  // False: this word cannot be remembered.
  bool add(uintptr_t address, uint64_t value) {
    const uintptr_t place = (address - begin) / sizeof(uint64_t);
    if (address < begin || address >= end || address % sizeof(uint64_t) != 0 || place > UINT16_MAX) return false;
    values[count] = value;
    places[count++] = static_cast<uint16_t>(place);
    return true;
  }
};

struct NativeTableMemory {
  static constexpr uint32_t kBuckets = 512;
  static constexpr uint32_t kFirst = 8;  // place 0 means none
  static constexpr uint32_t kRingSize = 240 * 1024;

  // What the entries depend on beside the stack.
  NativeOptions options;
  uint32_t module_generation;
  StackRange stack;  // of the owning thread

  // Entries lie in [tail, head); or, once the ring has wrapped, in [tail, wrap) and [kFirst, head), in that order of age.
  uint32_t head, tail, wrap;
  bool wrapped;
  uint32_t unkept_frames[kMaxNativeDepth];  // the result when it cannot be remembered
  // Too large for the stack of a thread that may have little left.
  UnwoundStack unwound;
  StackChecks checks;
  uint32_t buckets[kBuckets];
  alignas(8) unsigned char ring[kRingSize];
};
static_assert(sizeof(NativeTableMemory) <= 256 * 1024);

// Null when no memory is to be had.
NativeTableMemory* map_native_table();
void unmap_native_table(NativeTableMemory*);
void forget_native_entries(NativeTableMemory&);

// The entry for this call site that the stack agrees with; null = none.
NativeEntry* find_native_entry(NativeTableMemory&, CallSite);
// A new entry with room for its arrays, in place of the oldest ones; the caller fills them.
NativeEntry* add_native_entry(NativeTableMemory&, CallSite, uint32_t check_count, uint32_t frame_count);

}  // namespace vramtrack

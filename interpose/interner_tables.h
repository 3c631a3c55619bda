// The interner's own memory: what it has seen, by content. Zeroed memory is an empty interner.
#pragma once

#include <string_view>

#include "interpose/capture_file.h"
#include "interpose/hash_index.h"
#include "interpose/lock.h"
#include "interpose/modules.h"

namespace vramtrack {

struct Interner {
  CaptureFile* file;
  Lock lock;
  HashIndex strings;         // hash of the bytes -> string
  HashIndex frames;          // hash of a Python or marker frame's fields -> frame
  HashIndex native_frames;   // return address -> frame; emptied when a module goes
  HashIndex edges;           // parent and frame -> stack node
  HashIndex stacks;          // hash of a whole stack -> StackRef, packed
  Modules modules;
  uint32_t native_generation;  // of `native_frames`
};

// intern_string for a caller that holds the lock.
uint32_t intern_string_held(Interner&, std::string_view text);

}  // namespace vramtrack

// Which object file an address belongs to now, and which it belonged to before.
#pragma once

#include <cstdint>

#include "interpose/capture_file.h"

namespace vramtrack {

struct Interner;

// The modules loaded when last looked, with their records in the capture. Zeroed memory is an empty list; the owner's lock
// guards it.
struct Modules {
  struct Loaded {
    uint64_t begin, end;
    uint64_t moved;  // from where it lay when its record was made
    uint32_t record;
    bool seen;  // by the walk in progress
  };
  static constexpr uint32_t kMax = 4096;  // more stay without a name
  Loaded* loaded;
  uint32_t count;
  uint64_t adds, subs;  // the loader's own counters when last looked
  std::atomic<uint32_t> generation;
};

// Where code lies: in the module of a record, at the address it had when that was made. 0: in no module.
struct CodePlace {
  uint32_t record;
  uintptr_t address;
};

// The place of `address`. Looks at the loader's list again only if that has changed; if modules were unloaded
// since, the generation rises. The interner's lock is held. Takes the loader's lock on its list, which is not the one held
// while constructors run.
CodePlace place_of(Modules&, Interner&, CaptureFile&, uintptr_t address);

// The look at the loader's list alone.
void refresh_modules(Modules&, Interner&, CaptureFile&);

}  // namespace vramtrack

// A thread that reads its stack in a stand-in for an intercepted function, and compares each result with libc's backtrace(),
// which shares no code with what is tested.
#pragma once

#include "interpose/native_stack.h"
#include "tests/unit/fake_interner.h"

#include <execinfo.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace vramtrack {

inline constexpr uint32_t kDepth = 40;

inline Unwinder& libunwind() {
  static Unwinder unwinder = [] {
    Unwinder loaded;
    load_unwinder(loaded);
    return loaded;
  }();
  return unwinder;
}

inline Unwinder libgcc() {
  Unwinder unwinder = libunwind();
  unwinder.state = format::UnwinderState::kLibgcc;
  return unwinder;
}

// What one thread of a test sees.
struct Watcher {
  Interner interner;
  NativeStackTable table = {};
  Unwinder unwinder = libunwind();
  NativeOptions options = {kDepth, 0, 0};
  bool compare = true;
  uint32_t hits = 0, misses = 0, wrong = 0;
  NativeStack last = {};

  ~Watcher() { release_native_stack_table(table); }
  std::vector<uintptr_t> last_addresses() {
    std::vector<uintptr_t> addresses;
    for (uint32_t i = 0; i < last.count; ++i) addresses.push_back(interner.frame(last.frames[i]).return_address);
    return addresses;
  }
};

inline thread_local Watcher* watcher;

inline bool agrees_with_backtrace(Watcher& watch, CallSite site) {
  void* addresses[kDepth + 32];
  const int count = backtrace(addresses, kDepth + 32);
  const auto first = std::find(addresses, addresses + count, reinterpret_cast<void*>(site.return_address));
  std::vector<uintptr_t> expected;
  for (auto at = first; at != addresses + count && expected.size() < watch.options.max_depth; ++at) {
    expected.push_back(reinterpret_cast<uintptr_t>(*at));
  }
  return expected == watch.last_addresses();
}

// Stands for an intercepted function.
[[gnu::noinline]] inline void hook() {
  const CallSite site = VRAMTRACK_CALL_SITE;
  Watcher& watch = *watcher;
  errno = 1234;
  watch.last = read_native_stack(watch.unwinder, watch.table, watch.interner, site, watch.options);
  if (errno != 1234) ++watch.wrong;
  ++(watch.last.hit ? watch.hits : watch.misses);
  if (watch.compare && !agrees_with_backtrace(watch, site)) ++watch.wrong;
  asm volatile("");
}

struct Watching {
  explicit Watching(Watcher& watch) { watcher = &watch; }
  ~Watching() { watcher = nullptr; }
};

// From one call site, which an unrolled loop would not be.
[[gnu::noipa]] inline void repeat(uint32_t times, void (*function)()) {
  for (uint32_t i = 0; i < times; ++i) {
    function();
    asm volatile("");
  }
}

}  // namespace vramtrack

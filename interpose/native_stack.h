// Which native frames is the calling thread in? Answered by verifying a remembered stack instead of unwinding.
//
// A training loop allocates from the same places at the same stack depth again and again. When a stack is unwound the slow way,
// the place and the value of every return address are remembered, under the wrapper's frame and return address. Next time the
// stack is the same if every remembered place still holds the remembered value: some 40 loads, no unwinding, no locks.
//
// Why that proves it: frame by frame, a return address tells the function and the instruction, and from these follows the
// caller's frame at a fixed distance; or, where a frame's size varies (alloca), at a distance from the saved frame pointer.
// So saved frame pointers that a frame's place follows from are remembered and compared too. Comparing return addresses alone
// is not enough: what an earlier call left behind in an alloca'd buffer can look like the rest of another stack.
//
// Why the loads are safe: they lie between the wrapper's frame and the end of the thread's own stack, which is mapped while the
// thread lives. Frames outside it (signal stacks, coroutines) are unwound every time.
#pragma once

#include "interpose/interner.h"
#include "interpose/thread_stack.h"
#include "interpose/unwinder.h"

#include <cstdint>

namespace vramtrack {

inline constexpr uint32_t kMaxNativeDepth = 128;

struct NativeTableMemory;

// The stacks that one thread remembers: at most 256 KiB, mapped as it is used, the oldest forgotten first. Zeroed it is empty.
// Owned by its thread; release it when the thread ends.
struct NativeStackTable {
  NativeTableMemory* memory;
  uint32_t lone_frame;  // the result when there is no memory
};

void release_native_stack_table(NativeStackTable&);

// Innermost first, beginning with the wrapper's caller. `frames` are valid until the table is used again.
struct NativeStack {
  const uint32_t* frames;
  uint32_t count;
  uint64_t hash;        // hash_mix over `frames` in order, from 0
  bool hit;             // verified, not unwound
  bool reached_python;  // ends where the interpreter called; `frames` are all inside of it
};

struct NativeOptions {
  uint32_t max_depth;                // at most kMaxNativeDepth
  uintptr_t stop_begin, stop_end;    // stop at the first return address in here: the interpreter. Equal: never
};

// At least one frame, unless the interpreter itself called the wrapper. Must not be entered again on the same thread. Keeps
// errno. A change of the options or of module_generation() forgets all that was remembered.
NativeStack read_native_stack(const Unwinder&, NativeStackTable&, Interner&, CallSite, const NativeOptions&);

}  // namespace vramtrack

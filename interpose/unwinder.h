// Which frames called us, and where on the stack does each return address lie? The slow and exact way: unwind tables.
#pragma once

#include "interpose/capture_format.h"

#include <cstdint>

namespace vramtrack {

// Of the intercepting wrapper, taken in its own body: the values say which frame the recorded stack begins at. On x86-64 the
// return address lies at frame + 8 and the caller's stack pointer after the return is frame + 16; on arm64 `frame` points to
// the frame record (caller's frame pointer, return address).
struct CallSite {
  uintptr_t frame;
  uintptr_t return_address;
};

#define VRAMTRACK_CALL_SITE                                              \
  ::vramtrack::CallSite {                                                \
    reinterpret_cast<uintptr_t>(__builtin_frame_address(0)),             \
        reinterpret_cast<uintptr_t>(__builtin_return_address(0))         \
  }

// One frame above the wrapper. `slot` is where its `return_address` was read; 0 = not known, as above a signal handler.
//
// Where a function keeps a frame pointer, its size may change at run time (alloca), and the next frame's place follows from the
// frame pointer: then `frame_pointer` is its value, and `frame_pointer_slot` where that was saved by the functions it called.
struct UnwoundFrame {
  uintptr_t return_address;
  uintptr_t slot;
  uintptr_t stack_pointer;
  uintptr_t frame_pointer;
  uintptr_t frame_pointer_slot;  // 0 = not known
};

// libunwind's functions, or libgcc's where it is missing. libunwind exports the symbols that throw C++ exceptions: linking it,
// or loading it globally, would make it throw the program's.
struct Unwinder {
  format::UnwinderState state;
  int (*init_local)(void* cursor, void* context);
  int (*step)(void* cursor);
  int (*get_reg)(void* cursor, int reg, uintptr_t* value);
  int (*get_save_loc)(void* cursor, int reg, void* location);
  int (*is_signal_frame)(void* cursor);
  int (*backtrace)(int (*)(void* context, void* argument), void* argument);
  uintptr_t (*get_ip)(void* context);
  uintptr_t (*get_cfa)(void* context);
  uintptr_t (*get_gr)(void* context, int reg);
};

// Looks for libunwind.so.8 beside our own library, then by its name; else for libgcc's unwinder. Opens libraries: only where
// the program can hold no allocator's lock. Unwinds once, so that what they set up at first use is set up here.
format::UnwinderState load_unwinder(Unwinder&);

// In the child of a fork: another thread may have held libunwind's lock at that moment. Then libgcc's unwinder, which has none,
// takes over.
void unwinder_after_fork(Unwinder&);

// The frames that called the wrapper, innermost first, at most `max`; the first is the one at call_site.return_address. Ends
// after the first frame whose address lies in [stop_begin, stop_end). At least one frame, whatever happens; errno may change.
//
// No lock of ours. libunwind takes one of its own with all signals blocked, and the loader's for as long as it looks for a
// module.
uint32_t unwind(const Unwinder&, CallSite, uintptr_t stop_begin, uintptr_t stop_end, UnwoundFrame* frames, uint32_t max);

}  // namespace vramtrack

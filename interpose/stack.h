// Where is the program? One 32-bit id for the calling thread's Python and native frames together.
//
// Innermost first a stack reads: native frames down to the interpreter, then, inside backward, a marker that says so, then the
// Python frames: the thread's own, and on the autograd engine's threads, which have none, those of the thread that called
// backward. A repeated stack costs one look-up.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/interner.h"
#include "interpose/native_stack.h"
#include "interpose/surroundings.h"
#include "interpose/thread_state.h"

namespace vramtrack {

// What stacks are made of in this process; part of the Recording.
struct StackSources {
  Interner* interner;
  bool python_on, native_on;
  uint32_t native_depth;
  const Surroundings* around;
  uint32_t backward_marker, cut_marker;  // frame ids: backward runs from here; deeper Python frames were not read
  std::atomic<uint64_t>* unwinds;        // counts the slow ones
  // The stack that called backward last, marker included, for the engine's threads; 0 = none has yet.
  std::atomic<uint32_t> lent_stack;
};

enum class Backward : uint8_t {
  kNone,
  kCaller,    // this thread is inside Engine::execute
  kBorrower,  // it may be one of the engine's: without Python frames of its own it borrows the caller's
};

StackRef take_stack(const StackSources&, ThreadState&, CallSite, Backward);

// The calling thread's Python frames alone, with the backward marker on top: what is lent.
uint32_t take_backward_stack(const StackSources&, ThreadState&);

}  // namespace vramtrack

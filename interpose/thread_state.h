// What a thread keeps between its events: its caches of frames and stacks.
//
// Made at a thread's first event, given to the next new thread when it ends, so that a program with thousands of short threads
// needs as many states as it has threads at a time. After a thread's own clean-up has run, later events on it (destructors of
// other thread-locals free memory) find no state, and make no new one.
#pragma once

#include <cstdint>

#include "interpose/interner.h"
#include "interpose/native_stack.h"
#include "interpose/python_frames.h"

namespace vramtrack {

struct ThreadState {
  // Whole stacks seen by this thread, by hash.
  struct RecentStack {
    uint64_t hash;
    StackRef stack;
  };
  static constexpr uint32_t kRecentStacks = 1024;

  ThreadState* next_free;
  uint64_t epoch;    // of the recording whose ids the caches hold
  uint32_t id;       // kernel thread id
  NativeStackTable native;
  PythonFrameCache python;
  RecentStack recent[kRecentStacks];
};

// The calling thread's state for the recording `epoch`, its caches empty if they were another's. Null: there is none to be had.
ThreadState* thread_state(uint64_t epoch);

// Prepares the clean-up at thread exit. Not by two threads at once.
void prepare_thread_states();

// In a forked child, before its recording starts: the states of ended threads were the parent's.
void forget_thread_states();

}  // namespace vramtrack

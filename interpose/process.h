// One process's recording: when it begins, who it is, how it ends.
//
// Nothing happens at load. The first event creates the capture; a forked child starts anew, at its own first event; whatever
// goes wrong ends the recording and not the program.
#pragma once

#include "interpose/capture_file.h"
#include "interpose/counted_memory.h"
#include "interpose/graph_memory.h"
#include "interpose/interner_tables.h"
#include "interpose/pools.h"
#include "interpose/recorder.h"
#include "interpose/stack.h"
#include "interpose/torch_streams.h"

namespace vramtrack {

struct Recording {
  uint64_t epoch;  // unlike any other recording's in this process and its parents
  CaptureFile file;
  Interner interner;
  Recorder recorder;
  StackSources stacks;
  GraphMemory graphs;
  CountedMemory physical;  // of cuMemCreate, by handle
  CountedMemory opened;    // of other processes, by address
  CountedMemory user_objects;
  Pools pools;
  TorchStreams torch_streams;
  std::atomic<uint32_t> threads_in_backward;
  std::atomic<bool> native_steps;  // PyTorch announces steps: what its Python code does around them says nothing new
};

// This process's recording, made now if this is the first event. Null: there is none and there will be none.
Recording* recording_for_event();

// The same, but never made.
Recording* present_recording();

// A memory function that we do not hook was looked up, `name` static: every recording of this process will say so, those of its
// children too, which have the function as well.
void remember_unhooked(const char* name);
void record_unhooked(Recording&, const char* name);

}  // namespace vramtrack

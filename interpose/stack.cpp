// Where is the program? See stack.h.
#include "interpose/stack.h"

#include <cstring>

#include "interpose/hash.h"

namespace vramtrack {
namespace {

constexpr uint32_t kMaxPythonFrames = 128;

// A stack in the pieces it is read in, innermost first. They are put together only when it has not been seen before.
struct Pieces {
  NativeStack native = {};
  uint32_t marker = 0;  // frame id; 0 = none
  uint32_t base = 0;    // a stack below all of it; 0 = none
  uint32_t python_count = 0;
  alignas(8) uint32_t python[kMaxPythonFrames + 1 + 3];  // the marker of a cut stack; a vector's padding
};

// Four Python frames at a time in two chains that do not wait for each other: one chain took a fifth of an event.
uint64_t hash_of(Pieces& pieces) {
  for (uint32_t i = 0; i < 3; i++) pieces.python[pieces.python_count + i] = 0;
  uint64_t even = pieces.native.hash, odd = uint64_t{pieces.base} << 32 | pieces.marker;
  for (uint32_t i = 0; i < pieces.python_count; i += 4) {
    uint64_t words[2];
    memcpy(words, pieces.python + i, sizeof words);
    even = hash_mix(even, words[0]);
    odd = hash_mix(odd, words[1]);
  }
  return hash_mix(hash_mix(even, odd), pieces.python_count);
}

void read_native(const StackSources& sources, ThreadState& thread, CallSite site, Pieces& pieces) {
  const Unwinder* unwinder = sources.around->unwinder.load(std::memory_order_acquire);  // pairs with look_for_unwinder
  if (!unwinder) return;
  // Where the native stack runs into the interpreter, the Python frames take over.
  const PythonInterpreter* python = sources.python_on ? sources.around->python.load(std::memory_order_acquire) : nullptr;
  const bool stop = python && python->state == format::PythonState::kReading;
  const NativeOptions options = {sources.native_depth, stop ? python->code_begin : 0, stop ? python->code_end : 0};
  pieces.native = read_native_stack(*unwinder, thread.native, *sources.interner, site, options);
  if (!pieces.native.hit) sources.unwinds->fetch_add(1, std::memory_order_relaxed);
}

void read_python(const StackSources& sources, ThreadState& thread, Pieces& pieces) {
  const PythonInterpreter* python = sources.around->python.load(std::memory_order_acquire);  // pairs with look_for_python
  if (!python) return;
  bool cut = false;
  pieces.python_count = read_python_frames(*python, thread.python, *sources.interner, pieces.python, kMaxPythonFrames, &cut);
  if (cut) [[unlikely]] pieces.python[pieces.python_count++] = sources.cut_marker;
}

[[gnu::noinline]] StackRef put_together(Interner& interner, const Pieces& pieces, uint64_t hash) {
  uint32_t frames[kMaxNativeDepth + 1 + kMaxPythonFrames + 1];
  uint32_t count = 0;
  for (uint32_t i = 0; i < pieces.native.count; i++) frames[count++] = pieces.native.frames[i];
  if (pieces.marker) frames[count++] = pieces.marker;
  for (uint32_t i = 0; i < pieces.python_count; i++) frames[count++] = pieces.python[i];
  return intern_stack(interner, pieces.base, frames, count, hash);
}

StackRef resolve(const StackSources& sources, ThreadState& thread, Pieces& pieces) {
  const uint64_t hash = hash_of(pieces);
  ThreadState::RecentStack& recent = thread.recent[hash % ThreadState::kRecentStacks];
  if (recent.hash == hash && recent.stack.id) [[likely]] return recent.stack;
  StackRef stack = find_stack(*sources.interner, hash);
  if (!stack.id) stack = put_together(*sources.interner, pieces, hash);
  recent = {hash, stack};
  return stack;
}

}  // namespace

StackRef take_stack(const StackSources& sources, ThreadState& thread, CallSite site, Backward backward) {
  Pieces pieces;
  if (sources.python_on) read_python(sources, thread, pieces);
  if (sources.native_on) read_native(sources, thread, site, pieces);
  if (backward == Backward::kCaller) pieces.marker = sources.backward_marker;
  if (backward == Backward::kBorrower && pieces.python_count == 0)
    pieces.base = sources.lent_stack.load(std::memory_order_relaxed);
  return resolve(sources, thread, pieces);
}

uint32_t take_backward_stack(const StackSources& sources, ThreadState& thread) {
  Pieces pieces;
  pieces.marker = sources.backward_marker;
  if (sources.python_on) read_python(sources, thread, pieces);
  return resolve(sources, thread, pieces).id;
}

}  // namespace vramtrack

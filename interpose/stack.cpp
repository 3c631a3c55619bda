#include "interpose/stack.h"

#include "interpose/hash.h"

namespace vramtrack {
namespace {

constexpr uint32_t kMaxPythonFrames = 128;
constexpr uint32_t kMaxFrames = 512;

struct Frames {
  uint32_t ids[kMaxFrames];
  uint32_t count = 0;
  uint64_t hash = 0;

  void add(uint32_t id) {
    if (count == kMaxFrames) return;
    ids[count++] = id;
    hash = hash_mix(hash, id);
  }
};

void add_native(const StackSources& sources, ThreadState& thread, CallSite site, Frames& frames) {
  // Where the native stack runs into the interpreter, the Python frames take over.
  const bool stop = sources.python_on && sources.python->state == format::PythonState::kReading;
  const NativeOptions options = {sources.native_depth, stop ? sources.python->code_begin : 0, stop ? sources.python->code_end : 0};
  const NativeStack native = read_native_stack(*sources.unwinder, thread.native, *sources.interner, site, options);
  if (!native.hit) sources.unwinds->fetch_add(1, std::memory_order_relaxed);
  for (uint32_t i = 0; i < native.count && frames.count < kMaxFrames; i++) frames.ids[frames.count++] = native.frames[i];
  frames.hash = hash_mix(frames.hash, native.hash);
}

void add_python(const uint32_t* ids, uint32_t count, Frames& frames) {
  for (uint32_t i = 0; i < count; i++) frames.add(ids[i]);
}

StackRef resolve(const StackSources& sources, ThreadState& thread, uint32_t base, const Frames& frames) {
  const uint64_t hash = hash_mix(frames.hash, base);
  ThreadState::RecentStack& recent = thread.recent[hash % ThreadState::kRecentStacks];
  if (recent.hash == hash && recent.stack.id) return recent.stack;
  StackRef stack = find_stack(*sources.interner, hash);
  if (!stack.id) stack = intern_stack(*sources.interner, base, frames.ids, frames.count, hash);
  recent = {hash, stack};
  return stack;
}

uint32_t python_frames(const StackSources& sources, ThreadState& thread, uint32_t (&ids)[kMaxPythonFrames]) {
  if (!sources.python_on) return 0;
  bool truncated = false;
  return read_python_frames(*sources.python, thread.python, *sources.interner, ids, kMaxPythonFrames, &truncated);
}

}  // namespace

StackRef take_stack(const StackSources& sources, ThreadState& thread, CallSite site, Backward backward) {
  uint32_t python[kMaxPythonFrames];
  const uint32_t python_count = python_frames(sources, thread, python);
  Frames frames;
  if (sources.native_on) add_native(sources, thread, site, frames);
  uint32_t base = 0;
  if (backward == Backward::kCaller) frames.add(sources.backward_marker);
  if (backward == Backward::kBorrower && python_count == 0) base = sources.lent_stack.load(std::memory_order_relaxed);
  add_python(python, python_count, frames);
  return resolve(sources, thread, base, frames);
}

uint32_t take_backward_stack(const StackSources& sources, ThreadState& thread) {
  uint32_t python[kMaxPythonFrames];
  const uint32_t python_count = python_frames(sources, thread, python);
  Frames frames;
  frames.add(sources.backward_marker);
  add_python(python, python_count, frames);
  return resolve(sources, thread, 0, frames).id;
}

}  // namespace vramtrack

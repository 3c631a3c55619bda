// Which id has this string, frame, stack? See interner.h.
#include "interpose/interner.h"

#include <cstring>

#include "interpose/interner_tables.h"

namespace vramtrack {
namespace {

using format::Frame;
using format::FrameKind;
using format::StackNode;

constexpr uint32_t kMaxStringBytes = 32 << 10;
constexpr uint32_t kMaxStackNodes = 4 << 20;   // 32 MiB of the file: random recursion must not fill a disk
constexpr uint32_t kCutStackFrames = 4;        // what stays of a new stack beyond that
constexpr uint32_t kStepFlag = 1u << 31;       // in the packed StackRef

uint64_t hash_bytes(std::string_view text) {
  uint64_t hash = text.size(), word = 0;
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    memcpy(&word, text.data() + i, 8);
    hash = hash_mix(hash, word);
  }
  word = 0;
  memcpy(&word, text.data() + i, text.size() - i);
  return hash_mix(hash, word);
}

// Different contents may meet under one hash; the next key is then tried. `same` compares with the record.
template <class Same>
uint32_t find_same(const HashIndex& index, uint64_t& key, Same same) {
  while (const uint32_t id = index.find(key)) {
    if (same(id)) return id;
    key = hash_mix(key, 1);
  }
  return 0;
}

std::string_view string_at(const CaptureFile& file, uint32_t id) {
  const char* at = static_cast<const char*>(record_at(file, format::kStrings, id));
  format::StringHeader header;
  memcpy(&header, at, sizeof header);
  return {at + sizeof header, header.length};
}

uint32_t write_string(CaptureFile& file, std::string_view text) {
  const format::StringHeader header{static_cast<uint32_t>(text.size())};
  const uint32_t id = append_bytes(file, sizeof header + header.length + 1);
  if (!id) return 0;
  char* at = static_cast<char*>(record_at(file, format::kStrings, id));
  memcpy(at + sizeof header, text.data(), text.size());
  memcpy(at, &header, sizeof header);
  return id;
}

uint32_t frame_locked(Interner& in, const Frame& frame) {
  uint64_t key = hash_mix(hash_mix(static_cast<uint64_t>(frame.kind), frame.function),
                          hash_mix(frame.file, uint64_t{frame.line} << 32 | frame.first_line));
  key = hash_mix(key, hash_mix(frame.address, frame.module));
  const auto same = [&](uint32_t id) { return !memcmp(&record<Frame>(*in.file, format::kFrames, id), &frame, sizeof frame); };
  if (const uint32_t id = find_same(in.frames, key, same)) return id;
  const uint32_t id = append(*in.file, format::kFrames, &frame);
  if (id) in.frames.insert(key, id);
  return id;
}

// Addresses remembered before an unload may mean other code now.
void forget_unloaded(Interner& in) {
  const uint32_t generation = in.modules.generation.load(std::memory_order_relaxed);
  if (generation == in.native_generation) return;
  in.native_frames.clear();
  in.native_generation = generation;
}

uint32_t node_locked(Interner& in, uint32_t parent, uint32_t frame) {
  const uint64_t edge = uint64_t{parent} << 32 | frame;
  if (const uint32_t id = in.edges.find(edge)) return id;
  const StackNode node{parent, frame};
  const uint32_t id = append(*in.file, format::kStacks, &node);
  if (id) in.edges.insert(edge, id);
  return id;
}

bool is_named(Interner& in, uint32_t frame, std::string_view function_end, std::string_view file_end) {
  const Frame& f = record<Frame>(*in.file, format::kFrames, frame);
  if (f.kind != FrameKind::kPython || !f.function || !f.file) return false;
  const auto ends = [](std::string_view text, std::string_view end) {
    return text.size() >= end.size() && !memcmp(text.data() + text.size() - end.size(), end.data(), end.size());
  };
  return ends(string_at(*in.file, f.function), function_end) && ends(string_at(*in.file, f.file), file_end);
}

// PyTorch's Python code wraps every Optimizer.step in a record_function whose __enter__, in versions whose native entry
// cannot be intercepted, allocates a one-element tensor: that allocation is the step's announcement.
bool announces_optimizer_step(Interner& in, const uint32_t* frames, uint32_t count) {
  constexpr uint32_t kFramesLookedAt = 3;  // of Python: the operator's call may stand above __enter__
  for (uint32_t i = 0, looked_at = 0; i + 1 < count && looked_at < kFramesLookedAt; i++) {
    if (record<Frame>(*in.file, format::kFrames, frames[i]).kind != FrameKind::kPython) continue;
    looked_at++;
    if (is_named(in, frames[i], "__enter__", "torch/autograd/profiler.py") &&
        is_named(in, frames[i + 1], "wrapper", "torch/optim/optimizer.py"))
      return true;
  }
  return false;
}

StackRef unpack(uint32_t packed) { return {packed & ~kStepFlag, (packed & kStepFlag) != 0}; }

}  // namespace

uint32_t intern_string_held(Interner& in, std::string_view text) {
  if (text.empty()) return 0;
  if (text.size() > kMaxStringBytes) text = {text.data(), kMaxStringBytes};
  uint64_t key = hash_bytes(text);
  if (const uint32_t id = find_same(in.strings, key, [&](uint32_t i) { return string_at(*in.file, i) == text; })) return id;
  const uint32_t id = write_string(*in.file, text);
  if (id) in.strings.insert(key, id);
  return id;
}

uint32_t intern_string(Interner& in, std::string_view text) {
  Locked hold(in.lock);
  return intern_string_held(in, text);
}

uint32_t intern_python_frame(Interner& in, std::string_view function, std::string_view file, uint32_t line, uint32_t first_line) {
  Locked hold(in.lock);
  Frame frame = {};
  frame.kind = FrameKind::kPython;
  frame.function = intern_string_held(in, function);
  frame.file = intern_string_held(in, file);
  frame.line = line;
  frame.first_line = first_line;
  return frame_locked(in, frame);
}

uint32_t intern_marker_frame(Interner& in, std::string_view name) {
  Locked hold(in.lock);
  Frame frame = {};
  frame.kind = FrameKind::kMarker;
  frame.function = intern_string_held(in, name);
  return frame_locked(in, frame);
}

uint32_t intern_native_frame(Interner& in, uintptr_t return_address) {
  Locked hold(in.lock);
  forget_unloaded(in);
  if (const uint32_t id = in.native_frames.find(return_address)) return id;
  Frame frame = {};
  frame.kind = FrameKind::kNative;
  const CodePlace call = place_of(in.modules, in, *in.file, return_address - 1);
  frame.address = call.address + 1;
  frame.module = call.record;
  forget_unloaded(in);
  const uint32_t id = frame_locked(in, frame);  // the same as before an unload, if its own module has stayed
  if (id) in.native_frames.insert(return_address, id);
  return id;
}

StackRef intern_stack(Interner& in, uint32_t base, const uint32_t* frames, uint32_t count, uint64_t hash) {
  Locked hold(in.lock);
  if (const uint32_t packed = in.stacks.find(hash)) return unpack(packed);
  if (in.file->header->tables[format::kStacks].count.load(std::memory_order_relaxed) > kMaxStackNodes) {
    in.file->header->stacks_cut = 1;
    base = 0;
    if (count > kCutStackFrames) count = kCutStackFrames;
  }
  uint32_t node = base;
  for (uint32_t i = count; i-- > 0;) {
    const uint32_t next = frames[i] ? node_locked(in, node, frames[i]) : node;
    if (!next) break;
    node = next;
  }
  if (!node) return {};
  const StackRef ref{node, announces_optimizer_step(in, frames, count)};
  in.stacks.insert(hash, node | (ref.optimizer_step ? kStepFlag : 0));
  return ref;
}

StackRef find_stack(const Interner& in, uint64_t hash) { return unpack(in.stacks.find(hash)); }

void notice_unloaded_modules(Interner& in) {
  Locked hold(in.lock);
  if (in.modules.count) refresh_modules(in.modules, in, *in.file);  // else nothing is remembered yet
}

uint32_t module_generation(const Interner& in) { return in.modules.generation.load(std::memory_order_acquire); }

}  // namespace vramtrack

// Reads the native stack: from the thread's table where it can be verified, else by unwinding, which fills the table.
#include "interpose/native_stack.h"

#include "interpose/sys.h"

#include "interpose/hash.h"
#include "interpose/native_table.h"

#include <cerrno>

namespace vramtrack {
namespace {

bool same_options(const NativeOptions& a, const NativeOptions& b) {
  return a.max_depth == b.max_depth && a.stop_begin == b.stop_begin && a.stop_end == b.stop_end;
}

bool in_python(const NativeOptions& options, uintptr_t address) {
  return address >= options.stop_begin && address < options.stop_end;
}

void forget_if_outdated(NativeTableMemory& table, const Interner& interner, const NativeOptions& options) {
  const uint32_t generation = module_generation(interner);
  if (table.module_generation == generation && same_options(table.options, options)) return;
  forget_native_entries(table);
  table.module_generation = generation;
  table.options = options;
}

// A frame pointer points into its own frame; then the caller's frame may follow from it.
bool place_follows_from_frame_pointer(const UnwoundFrame& frame, const UnwoundFrame& caller) {
  return frame.frame_pointer >= frame.stack_pointer && frame.frame_pointer < caller.stack_pointer;
}

// False: some frame's place is not known, so the stack cannot be verified later.
bool collect_checks(const UnwoundFrame* frames, uint32_t count, StackChecks& checks) {
  uintptr_t lowest = checks.begin;
  for (uint32_t i = 0; i < count; ++i) {
    if (frames[i].slot <= lowest || !checks.add(frames[i].slot, frames[i].return_address)) return false;
    lowest = frames[i].slot;
    if (i + 1 == count || !place_follows_from_frame_pointer(frames[i], frames[i + 1])) continue;
    if (!checks.add(frames[i].frame_pointer_slot, frames[i].frame_pointer)) return false;
  }
  return true;
}

uint32_t bounded_depth(uint32_t max_depth) {
  if (max_depth < 1) return 1;
  return max_depth < kMaxNativeDepth ? max_depth : kMaxNativeDepth;
}

void unwind_stack(const Unwinder& unwinder, CallSite site, const NativeOptions& options, UnwoundStack& unwound) {
  const sys::NoCancellation scope;
  const uint32_t max_depth = bounded_depth(options.max_depth);
  // One more than is shown, for it may be the interpreter's.
  unwound.count = unwind(unwinder, site, options.stop_begin, options.stop_end, unwound.frames, max_depth + 1);
  unwound.reached_python = in_python(options, unwound.frames[unwound.count - 1].return_address);
  unwound.shown_count = unwound.count - (unwound.reached_python ? 1 : 0);
  if (unwound.shown_count > max_depth) unwound.shown_count = max_depth;
}

void intern_frames(Interner& interner, const UnwoundStack& unwound, uint32_t* frame_ids) {
  for (uint32_t i = 0; i < unwound.shown_count; ++i) {
    frame_ids[i] = intern_native_frame(interner, unwound.frames[i].return_address);
  }
}

uint64_t hash_of(const uint32_t* frame_ids, uint32_t count) {
  uint64_t hash = 0;
  for (uint32_t i = 0; i < count; ++i) hash = hash_mix(hash, frame_ids[i]);
  return hash;
}

NativeStack remember(NativeTableMemory& table, Interner& interner, CallSite site) {
  const UnwoundStack& unwound = table.unwound;
  const StackChecks& checks = table.checks;
  NativeEntry* entry = add_native_entry(table, site, checks.count, unwound.shown_count);
  for (uint32_t i = 0; i < checks.count; ++i) {
    entry->values()[i] = checks.values[i];
    entry->places()[i] = checks.places[i];
  }
  intern_frames(interner, unwound, entry->frames());
  entry->hash = hash_of(entry->frames(), unwound.shown_count);
  entry->reached_python = unwound.reached_python;
  return {entry->frames(), unwound.shown_count, entry->hash, false, unwound.reached_python};
}

// A stack that ended for an unknown reason, or was cut, is as good as another: the same words lead to the same end.
[[gnu::noinline]] NativeStack read_slowly(const Unwinder& unwinder, NativeTableMemory& table, Interner& interner, CallSite site,
                                          const NativeOptions& options) {
  const int saved_errno = errno;
  UnwoundStack& unwound = table.unwound;
  unwind_stack(unwinder, site, options, unwound);
  StackChecks& checks = table.checks;
  checks.begin = site.frame;
  checks.end = table.stack.contains(site.frame) ? table.stack.end : site.frame;
  checks.count = 0;
  NativeStack stack;
  if (collect_checks(unwound.frames, unwound.count, checks)) {
    stack = remember(table, interner, site);
  } else {
    intern_frames(interner, unwound, table.unkept_frames);
    stack = {table.unkept_frames, unwound.shown_count, hash_of(table.unkept_frames, unwound.shown_count), false,
             unwound.reached_python};
  }
  errno = saved_errno;
  return stack;
}

[[gnu::noinline]] bool make_table(NativeStackTable& table) {
  const int saved_errno = errno;
  table.memory = map_native_table();
  errno = saved_errno;
  return table.memory != nullptr;
}

}  // namespace

void release_native_stack_table(NativeStackTable& table) {
  unmap_native_table(table.memory);
  table = {};
}

NativeStack read_native_stack(const Unwinder& unwinder, NativeStackTable& table, Interner& interner, CallSite site,
                              const NativeOptions& options) {
  if (in_python(options, site.return_address)) return {nullptr, 0, 0, true, true};
  if (table.memory == nullptr && !make_table(table)) {
    table.lone_frame = intern_native_frame(interner, site.return_address);
    return {&table.lone_frame, 1, hash_of(&table.lone_frame, 1), false, false};
  }
  NativeTableMemory& memory = *table.memory;
  forget_if_outdated(memory, interner, options);
  if (memory.stack.contains(site.frame)) {
    NativeEntry* entry = find_native_entry(memory, site);
    if (entry != nullptr) return {entry->frames(), entry->frame_count, entry->hash, true, entry->reached_python};
  }
  return read_slowly(unwinder, memory, interner, site, options);
}

}  // namespace vramtrack

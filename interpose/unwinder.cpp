// Unwinding by libunwind or libgcc, opened at run time.
#include "interpose/unwinder.h"

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/own_library.h"

#if defined(__x86_64__)
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#endif

namespace vramtrack {
namespace {

// How many threads are inside the unwinder now; asked after fork. Relaxed: the child has one thread, and sees what it forked.
std::atomic<uint32_t> unwinding;

struct Unwinding {
  Unwinding() { unwinding.fetch_add(1, std::memory_order_relaxed); }
  ~Unwinding() { unwinding.fetch_sub(1, std::memory_order_relaxed); }
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool is_stop(uintptr_t address, uintptr_t stop_begin, uintptr_t stop_end) {
  return address >= stop_begin && address < stop_end;
}

uintptr_t load(uintptr_t address) { return *reinterpret_cast<const uintptr_t*>(address); }

// Both architectures keep the caller's frame pointer and the return address side by side where `frame` points.
UnwoundFrame first_frame(CallSite site) {
  return {site.return_address, site.frame + 8, site.frame + 16, load(site.frame), site.frame};
}

#if defined(__x86_64__)

constexpr int kFramePointerRegister = 6;  // in DWARF's numbering

// A call pushes its return address: the slot lies just below the stack pointer that the frame has after the return. Not so
// above a signal handler, where the kernel wrote the address elsewhere.
uintptr_t slot_below(uintptr_t stack_pointer, uintptr_t return_address) {
  return load(stack_pointer - 8) == return_address ? stack_pointer - 8 : 0;
}

// libunwind.

#define LOCAL(name) "_ULx86_64_" #name  // what libunwind.h's macros make of unw_... with UNW_LOCAL_ONLY

bool find_libunwind(void* library, Unwinder& unwinder) {
  return find(library, LOCAL(init_local), unwinder.init_local) && find(library, LOCAL(step), unwinder.step) &&
         find(library, LOCAL(get_reg), unwinder.get_reg) && find(library, LOCAL(get_save_loc), unwinder.get_save_loc) &&
         find(library, LOCAL(is_signal_frame), unwinder.is_signal_frame);
}

uintptr_t frame_pointer_slot(const Unwinder& unwinder, unw_cursor_t& cursor, const unw_context_t& context, CallSite site) {
  unw_save_loc_t location;
  if (unwinder.get_save_loc(&cursor, UNW_X86_64_RBP, &location) != 0 || location.type != UNW_SLT_MEMORY) return 0;
  // Nobody saved it above the wrapper: the wrapper itself did, which is where the context has it from.
  if (location.u.addr == reinterpret_cast<uintptr_t>(&context.uc_mcontext.gregs[REG_RBP])) return site.frame;
  return location.u.addr;
}

// Starts at the wrapper's caller, not at this function: of the registers that the tables may ask for, the instruction, stack
// and frame pointers are known there. The other callee-saved registers are only ever passed on.
uint32_t unwind_by_libunwind(const Unwinder& unwinder, CallSite site, uintptr_t stop_begin, uintptr_t stop_end,
                             UnwoundFrame* frames, uint32_t max) {
  unw_context_t context = {};
  context.uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(frames[0].return_address);
  context.uc_mcontext.gregs[REG_RSP] = static_cast<greg_t>(frames[0].stack_pointer);
  context.uc_mcontext.gregs[REG_RBP] = static_cast<greg_t>(frames[0].frame_pointer);
  unw_cursor_t cursor;
  if (unwinder.init_local(&cursor, &context) != 0) return 1;

  uint32_t count = 1;
  while (count < max && !is_stop(frames[count - 1].return_address, stop_begin, stop_end)) {
    const bool above_signal = unwinder.is_signal_frame(&cursor) > 0;
    if (unwinder.step(&cursor) <= 0) break;
    UnwoundFrame& frame = frames[count];
    if (unwinder.get_reg(&cursor, UNW_REG_IP, &frame.return_address) != 0 || frame.return_address == 0) break;
    if (unwinder.get_reg(&cursor, UNW_REG_SP, &frame.stack_pointer) != 0) break;
    if (unwinder.get_reg(&cursor, UNW_X86_64_RBP, &frame.frame_pointer) != 0) break;
    frame.slot = above_signal ? 0 : slot_below(frame.stack_pointer, frame.return_address);
    frame.frame_pointer_slot = frame_pointer_slot(unwinder, cursor, context, site);
    ++count;
  }
  return count;
}

// libgcc.

// Where the functions called saved this frame pointer: among the words that they pushed below their return address, if they
// did so at once, as compilers do.
uintptr_t find_saved_frame_pointer(const UnwoundFrame& callee, const UnwoundFrame& frame) {
  constexpr uint32_t kPushes = 6;
  uintptr_t at = frame.slot;
  for (uint32_t i = 0; i < kPushes && at - 8 >= callee.stack_pointer; ++i) {
    at -= 8;
    if (load(at) == frame.frame_pointer) return at;
  }
  return callee.frame_pointer == frame.frame_pointer ? callee.frame_pointer_slot : 0;
}

UnwoundFrame frame_of_context(const Unwinder& unwinder, void* context, const UnwoundFrame& callee) {
  UnwoundFrame frame = {unwinder.get_ip(context), 0, unwinder.get_cfa(context),
                        unwinder.get_gr(context, kFramePointerRegister), 0};
  if (frame.stack_pointer <= callee.stack_pointer) return frame;
  frame.slot = slot_below(frame.stack_pointer, frame.return_address);
  if (frame.slot != 0) frame.frame_pointer_slot = find_saved_frame_pointer(callee, frame);
  return frame;
}

#else  // arm64: libgcc alone; written by the book, not yet run

constexpr int kFramePointerRegister = 29;

uint32_t unwind_by_libunwind(const Unwinder&, CallSite, uintptr_t, uintptr_t, UnwoundFrame*, uint32_t) { return 1; }
bool find_libunwind(void*, Unwinder&) { return false; }

// A function saves its caller's frame pointer and return address side by side, and points its own frame pointer there.
UnwoundFrame frame_of_context(const Unwinder& unwinder, void* context, const UnwoundFrame& callee) {
  UnwoundFrame frame = {unwinder.get_ip(context), 0, unwinder.get_cfa(context),
                        unwinder.get_gr(context, kFramePointerRegister), 0};
  const uintptr_t record = callee.frame_pointer;
  const bool in_callee = record >= callee.stack_pointer && record + 16 <= frame.stack_pointer && record % 8 == 0;
  if (!in_callee || load(record + 8) != frame.return_address || load(record) != frame.frame_pointer) return frame;
  frame.slot = record + 8;
  frame.frame_pointer_slot = record;
  return frame;
}

#endif

struct Walk {
  const Unwinder& unwinder;
  uintptr_t stop_begin, stop_end;
  UnwoundFrame* frames;
  uint32_t count, max;
  bool in_caller;  // past our own frames
};

int visit_frame(void* context, void* argument) {
  constexpr int kContinue = 0, kStop = 4;  // _URC_NO_REASON, _URC_NORMAL_STOP
  Walk& walk = *static_cast<Walk*>(argument);
  if (!walk.in_caller) {
    // Our own frames lie below the wrapper's end.
    walk.in_caller = walk.unwinder.get_ip(context) == walk.frames[0].return_address &&
                     walk.unwinder.get_cfa(context) >= walk.frames[0].stack_pointer;
    return kContinue;
  }
  const UnwoundFrame& callee = walk.frames[walk.count - 1];
  if (walk.count == walk.max || is_stop(callee.return_address, walk.stop_begin, walk.stop_end)) return kStop;
  const UnwoundFrame frame = frame_of_context(walk.unwinder, context, callee);
  if (frame.return_address == 0) return kStop;
  walk.frames[walk.count++] = frame;
  return kContinue;
}

bool load_libgcc(Unwinder& unwinder) {
  void* library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
  return library != nullptr && find(library, "_Unwind_Backtrace", unwinder.backtrace) &&
         find(library, "_Unwind_GetIP", unwinder.get_ip) && find(library, "_Unwind_GetCFA", unwinder.get_cfa) &&
         find(library, "_Unwind_GetGR", unwinder.get_gr);
}

// What libunwind's check of an address does, with a pipe: is the pipe well (empty), can a byte of the address be written to it?
ssize_t read_from_pipe(int, void*, size_t) {
  errno = EAGAIN;
  return -1;
}
ssize_t write_to_pipe(int, const void* address, size_t size) {
  const bool readable = is_readable(address);
  errno = readable ? 0 : EFAULT;  // it looks at errno even when nothing failed
  return readable ? static_cast<ssize_t>(size) : -1;
}
long write_to_pipe_by_number(long number, long descriptor, const void* address, size_t size) {
  return number == SYS_write ? write_to_pipe(static_cast<int>(descriptor), address, size) : syscall(number, descriptor, address, size);
}
int open_pipe(int descriptors[2]) {
  descriptors[0] = descriptors[1] = -1;
  return 0;
}
int open_pipe_with(int descriptors[2], int) { return open_pipe(descriptors); }

bool load_libunwind(Unwinder& unwinder) {
  const ReplacedCall pipe_calls[] = {{"pipe", reinterpret_cast<void*>(&open_pipe)},
                                     {"pipe2", reinterpret_cast<void*>(&open_pipe_with)},
                                     {"read", reinterpret_cast<void*>(&read_from_pipe)},
                                     {"write", reinterpret_cast<void*>(&write_to_pipe)},
                                     {"syscall", reinterpret_cast<void*>(&write_to_pipe_by_number)}};
  void* library = open_own_library("libunwind.so.8", pipe_calls);
  return library != nullptr && find_libunwind(library, unwinder);
}

[[gnu::noinline]] void unwind_once(const Unwinder& unwinder) {
  UnwoundFrame frames[8];
  unwind(unwinder, VRAMTRACK_CALL_SITE, 0, 0, frames, 8);
}

}  // namespace

format::UnwinderState load_unwinder(Unwinder& unwinder) {
  unwinder = {};
  const bool has_libgcc = load_libgcc(unwinder);
  if (load_libunwind(unwinder)) {
    unwinder.state = format::UnwinderState::kLibunwind;
  } else if (has_libgcc) {
    unwinder.state = format::UnwinderState::kLibgcc;
  }
  unwind_once(unwinder);
  return unwinder.state;
}

void unwinder_after_fork(Unwinder& unwinder) {
  if (unwinding.load(std::memory_order_relaxed) == 0) return;
  unwinding.store(0, std::memory_order_relaxed);
  if (unwinder.state != format::UnwinderState::kLibunwind) return;
  unwinder.state = unwinder.backtrace != nullptr ? format::UnwinderState::kLibgcc : format::UnwinderState::kNone;
}

uint32_t unwind(const Unwinder& unwinder, CallSite site, uintptr_t stop_begin, uintptr_t stop_end, UnwoundFrame* frames,
                uint32_t max) {
  frames[0] = first_frame(site);
  const Unwinding inside;
  switch (unwinder.state) {
    case format::UnwinderState::kLibunwind:
      return unwind_by_libunwind(unwinder, site, stop_begin, stop_end, frames, max);
    case format::UnwinderState::kLibgcc: {
      Walk walk = {unwinder, stop_begin, stop_end, frames, 1, max, false};
      unwinder.backtrace(visit_frame, &walk);
      return walk.count;
    }
    default: return 1;
  }
}

}  // namespace vramtrack

// When does a process's recording begin, and how does it end? See process.h.
#include "interpose/process.h"

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <pthread.h>
#include <sched.h>

#include "interpose/call.h"
#include "interpose/clock.h"
#include "interpose/events.h"
#include "interpose/identity.h"
#include "interpose/messages.h"
#include "interpose/private_memory.h"
#include "interpose/settings.h"
#include "interpose/sys.h"

namespace vramtrack {

constinit thread_local OuterCall Call::current;
constinit thread_local bool OwnWork::busy;

namespace {

constexpr int kNameAttempts = 1000;

enum class State : uint32_t { kNew, kStarting, kOn, kOff };

// What is true of this process and not of its children: the kernel clears the page in a forked child (MADV_WIPEONFORK), so
// that one load on every event tells both whether recording has begun and whether a fork came between.
struct ProcessPage {
  std::atomic<State> state;
  std::atomic<Recording*> recording;
  std::atomic<bool> stop_said;
};
std::atomic<ProcessPage*> process_page;

std::atomic<uint32_t> unhooked_count;
std::atomic<const char*> unhooked_names[256];

uint64_t last_epoch;  // copied into children, so theirs are higher

void clear_page_in_child() {  // for kernels without MADV_WIPEONFORK
  if (ProcessPage* page = process_page.load(std::memory_order_relaxed)) memset(static_cast<void*>(page), 0, sizeof *page);
}

ProcessPage* make_process_page() {
  void* p = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  if (madvise(p, 4096, MADV_WIPEONFORK) != 0) pthread_atfork(nullptr, nullptr, clear_page_in_child);
  ProcessPage* mine = static_cast<ProcessPage*>(p);
  ProcessPage* theirs = nullptr;
  if (process_page.compare_exchange_strong(theirs, mine, std::memory_order_acq_rel)) return mine;
  munmap(p, 4096);
  return theirs;
}

ProcessPage* this_process() {
  ProcessPage* page = process_page.load(std::memory_order_acquire);
  return page ? page : make_process_page();
}

void at_exit(int status, void*) {
  OwnWork work;
  Recording* r = present_recording();
  if (!r) return;
  const bool has_python = surroundings().python.load(std::memory_order_acquire) != nullptr;
  record_work_ended(r->recorder, has_python ? WorkEnd::kPythonProcessExits : WorkEnd::kProcessExits);
  const uint64_t ns = monotonic_ns() - r->file.header->start_monotonic_ns;
  r->file.header->end_time_ms = static_cast<uint32_t>(ns / 1000000);
  r->file.header->end_code = status & 0xff;
  r->file.header->end_kind = format::EndKind::kExit;
}

void register_exit() {
  static bool done;  // children inherit the handler with the flag
  if (!done) done = on_exit(at_exit, nullptr) == 0;
}

bool create_file(CaptureFile& file) {
  static char path[sizeof file.path];  // one recording starts at a time, perhaps on a small stack
  for (int attempt = 0; attempt < kNameAttempts; attempt++) {
    if (!capture_path(settings().output, attempt, path, sizeof path)) {
      tell_unrecorded("the name of the capture is too long", "", settings().output);
      return false;
    }
    if (create_capture_file(file, path)) return true;
    if (file.failure_errno != EEXIST) break;
  }
  const char* why = strerrordesc_np(file.failure_errno);
  tell_unrecorded("cannot create", path, why ? why : "unknown error");
  return false;
}

void note_surroundings(format::Header& header) {
  const Unwinder* unwinder = surroundings().unwinder.load(std::memory_order_acquire);
  if (!settings().native_stacks) header.unwinder = format::UnwinderState::kOff;
  else if (unwinder) header.unwinder = unwinder->state;
  if (const PythonInterpreter* python = surroundings().python.load(std::memory_order_acquire)) {
    header.python = python->state;
    header.python_version = python->version_hex;
  }
}

void surroundings_changed() {
  if (Recording* r = present_recording()) note_surroundings(*r->file.header);
}

void connect(Recording& r) {
  r.epoch = ++last_epoch;
  r.interner.file = &r.file;
  r.recorder.file = &r.file;
  r.recorder.interner = &r.interner;
  r.stacks.interner = &r.interner;
  r.stacks.around = &surroundings();
  r.stacks.python_on = settings().python_stacks;
  r.stacks.native_on = settings().native_stacks;
  r.stacks.native_depth = settings().native_depth;
  r.stacks.unwinds = &r.file.header->native_unwinds;
  r.stacks.backward_marker = intern_marker_frame(r.interner, "backward");
  r.stacks.cut_marker = intern_marker_frame(r.interner, "further Python frames, not read");
}

OpenFile own_file;  // in a forked child, the parent's

// A fork takes one thread along; what the others were in the middle of stays so for ever.
void leave_parent() {
  forget_thread_states();
  surroundings_after_fork();
  if (is_still_open(own_file)) sys::close(own_file.fd);
}

Recording* start() {
  const sys::NoCancellation scope;
  if (settings().secure || (settings().only_pid && settings().only_pid != getpid())) return nullptr;
  if (last_epoch > 0) leave_parent();
  auto* r = static_cast<Recording*>(map_private(sizeof(Recording)));
  if (!r) return nullptr;
  if (!create_file(r->file)) {
    unmap_private(r, sizeof(Recording));
    return nullptr;
  }
  prepare_thread_states();
  own_file = r->file.open;
  connect(*r);
  format::Header& header = *r->file.header;
  describe_process(header, r->interner);
  note_surroundings(header);
  register_exit();
  tell_capture(r->file.path);
  return r;
}

void record_remembered_unhooked(Recording& r) {
  const uint32_t count = unhooked_count.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count && i < std::size(unhooked_names); i++)
    if (const char* name = unhooked_names[i].load(std::memory_order_relaxed)) record_unhooked(r, name);
}

// Of several threads with a first event one starts, the others wait for the milliseconds that takes.
Recording* start_or_wait(ProcessPage& page) {
  State state = State::kNew;
  if (page.state.compare_exchange_strong(state, State::kStarting)) {
    Recording* r = start();
    page.recording.store(r, std::memory_order_release);  // pairs with recording_for_event
    page.state.store(r ? State::kOn : State::kOff, std::memory_order_release);
    if (r) record_remembered_unhooked(*r);
    return r;
  }
  while (page.state.load(std::memory_order_acquire) == State::kStarting) sched_yield();
  return page.recording.load(std::memory_order_acquire);
}

const char* text_of(format::StopReason reason) {
  switch (reason) {
    case format::StopReason::kDiskFull: return "the disk is full";
    case format::StopReason::kFileSizeLimit: return "the limit on file sizes (ulimit -f) is reached";
    case format::StopReason::kTableFull: return "the capture has reached its largest size";
    default: return "the file can no longer be grown";
  }
}

Recording* say_stopped(ProcessPage& page, Recording& r) {
  r.file.header->lost_events.fetch_add(1, std::memory_order_relaxed);
  if (!page.stop_said.exchange(true)) tell_unrecorded("recording stopped in", r.file.path, text_of(r.file.failure));
  return nullptr;
}

}  // namespace

Recording* present_recording() {
  ProcessPage* page = process_page.load(std::memory_order_acquire);
  return page ? page->recording.load(std::memory_order_acquire) : nullptr;
}

Recording* recording_for_event() {
  ProcessPage* page = this_process();
  if (!page) return nullptr;
  Recording* r = page->recording.load(std::memory_order_acquire);  // pairs with start_or_wait
  if (!r) [[unlikely]] {
    if (page->state.load(std::memory_order_acquire) == State::kOff) return nullptr;
    r = start_or_wait(*page);
    if (!r) return nullptr;
  }
  if (r->file.stopped.load(std::memory_order_relaxed)) [[unlikely]] return say_stopped(*page, *r);
  return r;
}

void remember_unhooked(const char* name) {
  const uint32_t i = unhooked_count.fetch_add(1, std::memory_order_relaxed);
  if (i < std::size(unhooked_names)) unhooked_names[i].store(name, std::memory_order_relaxed);
}

void record_unhooked(Recording& r, const char* name) {
  IncidentReport report = {format::IncidentKind::kUnhooked};
  report.name = intern_string(r.interner, name);
  record_incident(r.recorder, report);
}

bool recording_wanted() {
  ProcessPage* page = process_page.load(std::memory_order_acquire);
  return !page || page->state.load(std::memory_order_relaxed) != State::kOff;
}

void prepare_recording() { look_around(surroundings_changed); }

}  // namespace vramtrack

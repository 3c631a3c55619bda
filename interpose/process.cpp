#include "interpose/process.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>

#include "interpose/call.h"
#include "interpose/events.h"
#include "interpose/identity.h"
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

uint64_t last_epoch;  // copied into children, so theirs are higher

// What needed the loader's lock to find. Holds for forked children too.
struct Found {
  Unwinder unwinder;
  PythonInterpreter python;
};
Found found;
std::atomic<bool> loader_asked, python_found;
std::atomic<pid_t> finder;  // the process a thread of which is looking; another's means nobody, it was left by a fork
std::atomic<uint32_t> prepare_calls;

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

// Lines for the `vramtrack run` above us: the path of a capture, or "!" and why there is none or no more of it.
void append_to_manifest(const char* line, size_t size) {
  const char* manifest = settings().manifest;
  sys::Fd fd(*manifest ? sys::open(manifest, O_WRONLY | O_APPEND | O_NOFOLLOW) : -1);
  if (fd) sys::write(fd.fd, line, size);
}

bool is_the_stderr_of_the_start() {
  struct stat st;
  return fstat(2, &st) == 0 && st.st_dev == settings().stderr_device && st.st_ino == settings().stderr_inode;
}

void write_to_stderr(const char* line, size_t size) {
  pollfd can_write = {2, POLLOUT, 0};
  const timespec at_once = {};  // poll itself is a cancellation point
  if (!is_the_stderr_of_the_start() || syscall(SYS_ppoll, &can_write, 1, &at_once, nullptr, 0) != 1 || can_write.revents != POLLOUT) return;
  sys::write(2, line, size);
}

// One line for the user. Under `vramtrack run` that is who says it, when the program has ended: its stderr may be closed, a full
// pipe, or by now another file. Else we write, in one write, only if that cannot block, and without a SIGPIPE.
void say(const char* what, const char* path, const char* why) {
  static char line[4600];  // said when recording starts or stops, never both at once; a thread's stack may be small
  const char* format = *settings().manifest ? "!%s%s%s: %s; the program went on unrecorded\n"
                                            : "vramtrack: %s%s%s: %s; the program goes on unrecorded\n";
  const int n = snprintf(line, sizeof line, format, what, *path ? " " : "", path, why);
  const size_t size = n < 0 ? 0 : static_cast<size_t>(n) < sizeof line ? n : sizeof line - 1;
  *settings().manifest ? append_to_manifest(line, size) : write_to_stderr(line, size);
}

void at_exit(int status, void*) {
  OwnWork work;
  Recording* r = present_recording();
  if (!r) return;
  record_work_ended(r->recorder);
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
      say("the name of the capture is too long", "", settings().output);
      return false;
    }
    if (create_capture_file(file, path)) return true;
    if (file.failure_errno != EEXIST) break;
  }
  say("cannot create", path, strerrordesc_np(file.failure_errno) ? strerrordesc_np(file.failure_errno) : "unknown error");
  return false;
}

void note_unwinder(format::Header& header) {
  header.unwinder = settings().native_stacks ? found.unwinder.state : format::UnwinderState::kOff;
}

void note_python(format::Header& header) {
  header.python = found.python.state;
  header.python_version = found.python.version_hex;
}

void connect(Recording& r) {
  r.epoch = ++last_epoch;
  r.interner.file = &r.file;
  r.recorder.file = &r.file;
  r.recorder.interner = &r.interner;
  r.stacks.interner = &r.interner;
  r.stacks.python = &found.python;
  r.stacks.unwinder = &found.unwinder;
  r.stacks.python_on = settings().python_stacks;
  r.stacks.native_on = settings().native_stacks;
  r.stacks.unwinder_ready = &loader_asked;
  r.stacks.native_depth = settings().native_depth;
  r.stacks.unwinds = &r.file.header->native_unwinds;
  r.stacks.backward_marker = intern_marker_frame(r.interner, "backward");
}

void tell_capture(CaptureFile& file) {
  static char line[sizeof file.path + 1];
  const int n = snprintf(line, sizeof line, "%s\n", file.path);
  append_to_manifest(line, n);
}

// A fork takes one thread along; what the others were in the middle of stays so for ever.
void forget_parents_threads() {
  forget_thread_states();
  unwinder_after_fork(found.unwinder);
}

Recording* start() {
  const sys::NoCancellation scope;
  if (settings().secure || (settings().only_pid && settings().only_pid != getpid())) return nullptr;
  auto* r = static_cast<Recording*>(map_private(sizeof(Recording)));
  if (!r) return nullptr;
  if (!create_file(r->file)) {
    unmap_private(r, sizeof(Recording));
    return nullptr;
  }
  if (last_epoch > 0) forget_parents_threads();
  connect(*r);
  format::Header& header = *r->file.header;
  describe_process(header, r->interner);
  note_unwinder(header);
  note_python(header);
  register_exit();
  tell_capture(r->file);
  return r;
}

// Of several threads with a first event one starts, the others wait for the milliseconds that takes.
Recording* start_or_wait(ProcessPage& page) {
  State state = State::kNew;
  if (page.state.compare_exchange_strong(state, State::kStarting)) {
    Recording* r = start();
    page.recording.store(r, std::memory_order_release);  // pairs with recording_for_event
    page.state.store(r ? State::kOn : State::kOff, std::memory_order_release);
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
  if (!page.stop_said.exchange(true)) say("recording stopped in", r.file.path, text_of(r.file.failure));
  return nullptr;
}

// --- Python -------------------------------------------------------------------------------------------------------------

// Runs on Python's main thread with the GIL held, between two bytecodes.
int check_from_pending_call(void*) {
  OwnWork work;
  check_python_layout(found.python);
  if (Recording* r = present_recording()) note_python(*r->file.header);
  return 0;
}

void schedule_layout_check() {
  using IsInitialized = int (*)();
  using AddPendingCall = int (*)(int (*)(void*), void*);
  const auto initialized = reinterpret_cast<IsInitialized>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  const auto add = reinterpret_cast<AddPendingCall>(dlsym(RTLD_DEFAULT, "Py_AddPendingCall"));
  if (initialized && add && initialized()) add(check_from_pending_call, nullptr);
}

void look_for_python() {
  PythonInterpreter python = {};
  if (!find_python(python)) return;
  found.python = python;
  python_found.store(true, std::memory_order_release);
  schedule_layout_check();
  if (Recording* r = present_recording()) note_python(*r->file.header);
}

void ask_loader() {
  prepare_thread_states();
  Unwinder unwinder = {};
  if (settings().native_stacks) load_unwinder(unwinder);
  found.unwinder = unwinder;
  loader_asked.store(true, std::memory_order_release);  // pairs with stacks_ready
  if (Recording* r = present_recording()) note_unwinder(*r->file.header);
}

bool is_power_of_two(uint32_t n) { return (n & (n - 1)) == 0; }

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

bool recording_wanted() {
  ProcessPage* page = process_page.load(std::memory_order_acquire);
  return !page || page->state.load(std::memory_order_relaxed) != State::kOff;
}

void prepare_recording() {
  // Python may be loaded after CUDA, but is not worth more than a look now and then.
  const bool wanted = !loader_asked.load(std::memory_order_relaxed) ||
                      (!python_found.load(std::memory_order_relaxed) &&
                       is_power_of_two(prepare_calls.fetch_add(1, std::memory_order_relaxed)));
  if (!wanted) return;
  OwnWork work;
  const pid_t self = getpid();
  if (!work.entered() || settings().secure || finder.exchange(self) == self) return;  // nobody waits: it may hold the loader's lock
  const sys::NoCancellation scope;
  if (!loader_asked.load(std::memory_order_relaxed)) ask_loader();
  if (!python_found.load(std::memory_order_relaxed) && settings().python_stacks) look_for_python();
  finder.store(0);
}

}  // namespace vramtrack

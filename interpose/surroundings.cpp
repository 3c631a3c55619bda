// What lies around us in this process? See surroundings.h.
#include "interpose/surroundings.h"

#include <dlfcn.h>

#include "interpose/call.h"
#include "interpose/settings.h"
#include "interpose/sys.h"

namespace vramtrack {
namespace {

constinit Surroundings around = {};
Unwinder unwinder;
PythonInterpreter python;
void (*told)();

std::atomic<pid_t> finder;  // the process a thread of which is looking; another's means nobody, it was left by a fork
std::atomic<uint32_t> calls;

bool is_power_of_two(uint32_t n) { return (n & (n - 1)) == 0; }

// Runs on Python's main thread with the GIL held, between two bytecodes.
int check_from_pending_call(void*) {
  OwnWork work;
  check_python_layout(python);
  told();
  return 0;
}

void schedule_layout_check() {
  using IsInitialized = int (*)();
  using AddPendingCall = int (*)(int (*)(void*), void*);
  const auto initialized = reinterpret_cast<IsInitialized>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  const auto add = reinterpret_cast<AddPendingCall>(dlsym(RTLD_DEFAULT, "Py_AddPendingCall"));
  if (initialized && add && initialized()) add(check_from_pending_call, nullptr);
}

void look_for_unwinder() {
  if (settings().native_stacks) load_unwinder(unwinder);
  around.unwinder.store(&unwinder, std::memory_order_release);  // pairs with take_stack
}

bool look_for_python() {
  if (!find_python(python)) return false;
  around.python.store(&python, std::memory_order_release);  // pairs with take_stack
  schedule_layout_check();
  return true;
}

bool wants_unwinder() { return !around.unwinder.load(std::memory_order_relaxed); }
bool wants_python() { return settings().python_stacks && !around.python.load(std::memory_order_relaxed); }

}  // namespace

const Surroundings& surroundings() { return around; }

void look_around(void (*changed)()) {
  // Python may be loaded after CUDA, but is not worth more than a look now and then.
  const bool wanted = wants_unwinder() || (wants_python() && is_power_of_two(calls.fetch_add(1, std::memory_order_relaxed)));
  if (!wanted) return;
  OwnWork work;
  const pid_t self = getpid();
  if (!work.entered() || settings().secure || finder.exchange(self) == self) return;  // nobody waits: it may hold the loader's lock
  const sys::NoCancellation scope;
  told = changed;
  const bool first = wants_unwinder();
  if (first) look_for_unwinder();
  const bool python_found = wants_python() && look_for_python();
  if (first || python_found) changed();
  finder.store(0);
}

void surroundings_after_fork() {
  if (around.unwinder.load(std::memory_order_relaxed)) unwinder_after_fork(unwinder);
}

}  // namespace vramtrack

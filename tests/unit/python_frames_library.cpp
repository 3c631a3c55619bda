// Lets a Python script ask what read_python_frames sees: see python_frames_check.py, which loads this through ctypes.
#include "interpose/python_frames.h"
#include "tests/unit/fake_interner.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include <unistd.h>

using namespace vramtrack;

namespace {

constexpr uint32_t kMaxFrames = 512;

PythonInterpreter python;
thread_local PythonFrameCache cache;
Interner& interner() {
  static Interner& instance = *new Interner;  // outlives everything
  return instance;
}

// Runs after the interpreter is gone.
struct AfterPython {
  ~AfterPython() {
    uint32_t ids[kMaxFrames];
    bool truncated = false;
    if (read_python_frames(python, cache, interner(), ids, kMaxFrames, &truncated) != 0) _exit(99);
  }
} after_python;

}  // namespace

extern "C" {

// The state, as format::PythonState.
int library_find() { return find_python(python) ? static_cast<int>(python.state) : 0; }
int library_check() { return check_python_layout(python); }
int library_version() { return static_cast<int>(python.version_hex); }
int library_has_code_range() {
  const auto address = reinterpret_cast<uintptr_t>(python.is_finalizing);
  return address >= python.code_begin && address < python.code_end;
}

// Writes one line a frame, innermost first: function, file, line, first line, separated by U+001F. Returns the count.
int library_read(char* text, int size, int max, int* truncated) {
  uint32_t ids[kMaxFrames];
  bool more = false;
  const uint32_t count =
      read_python_frames(python, cache, interner(), ids, std::min<uint32_t>(static_cast<uint32_t>(max), kMaxFrames), &more);
  *truncated = more;
  std::string out;
  for (uint32_t i = 0; i < count; ++i) {
    const FakeFrame frame = interner().frame(ids[i]);
    out += frame.function + '\x1f' + frame.file + '\x1f' + std::to_string(frame.line) + '\x1f' +
           std::to_string(frame.first_line) + '\n';
  }
  if (out.size() >= static_cast<size_t>(size)) return -1;
  memcpy(text, out.c_str(), out.size() + 1);
  return static_cast<int>(count);
}

// How many frames a thread sees that Python does not know.
int library_read_in_foreign_thread() {
  uint32_t count = 0;
  std::thread([&count] {
    uint32_t ids[kMaxFrames];
    bool truncated = false;
    count = read_python_frames(python, cache, interner(), ids, kMaxFrames, &truncated);
  }).join();
  return static_cast<int>(count);
}

int library_misses() { return static_cast<int>(interner().calls); }

// Nanoseconds of one read of the calling thread's frames, warm: the best of many short laps, since the machine is shared.
double library_bench(int rounds) {
  uint32_t ids[kMaxFrames];
  bool more = false;
  read_python_frames(python, cache, interner(), ids, kMaxFrames, &more);
  double best = 1e9;
  for (int lap = 0; lap < 400; ++lap) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i) {
      read_python_frames(python, cache, interner(), ids, kMaxFrames, &more);
      asm volatile("" : : "r"(ids) : "memory");
    }
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
    best = std::min(best, taken.count() / rounds);
  }
  return best;
}

// Calls `callback` from C, so that a C frame stands between two Python frames.
void library_call(void (*callback)()) { callback(); }
}

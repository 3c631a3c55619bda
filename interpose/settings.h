// What the environment asks of the library: one variable per option of `vramtrack run`, read once.
//
//   VRAMTRACK_OUTPUT        where captures go: a pattern with %n program, %p pid, %r rank, %h host; default "%n.%p.vtrk"
//   VRAMTRACK_MANIFEST      a file that gets lines: the path of each capture made; "!" and a message for the user
//   VRAMTRACK_RUN_ID        hex number that names the `vramtrack run`
//   VRAMTRACK_CPU           1: record PyTorch's CPU tensors too
//   VRAMTRACK_STACKS        python, native, both (default), none
//   VRAMTRACK_NATIVE_DEPTH  native frames kept of a stack; default 40
//   VRAMTRACK_ONLY_PID      record this process only, none of its children
#pragma once

#include <atomic>
#include <cstdint>
#include <sys/types.h>

namespace vramtrack {

struct Settings {
  const char* output;    // points into the environment's own copy taken at the first read
  const char* manifest;  // "" = none
  uint64_t run_id;
  bool cpu;
  bool python_stacks, native_stacks;
  uint32_t native_depth;
  pid_t only_pid;  // 0 = all
  bool secure;     // a set-uid process: nothing may be done
  uint64_t stderr_device, stderr_inode;  // what descriptor 2 was at first
};

// As settings(), when they are read for the first time.
const Settings& read_settings();

extern std::atomic<bool> settings_read;
extern Settings settings_values;

// Safe from any thread; the first call reads the environment. Asked at every event.
inline const Settings& settings() {
  return settings_read.load(std::memory_order_acquire) ? settings_values : read_settings();
}

}  // namespace vramtrack

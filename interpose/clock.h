// Time that passes, for what takes long enough to be worth two readings.
#pragma once

#include <cstdint>
#include <ctime>

namespace vramtrack {

// About 25 ns; the vDSO, no system call.
inline uint64_t monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

}  // namespace vramtrack

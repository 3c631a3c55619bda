// The time, for what takes long enough to be worth a reading. (An event's own time is coarser and cheaper, see now().)
#pragma once

#include <cstdint>
#include <ctime>

namespace vramtrack {

inline uint64_t nanoseconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

// About 25 ns; the vDSO, no system call.
inline uint64_t monotonic_ns() { return nanoseconds(CLOCK_MONOTONIC); }

}  // namespace vramtrack

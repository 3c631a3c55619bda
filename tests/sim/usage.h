// What the simulated driver of a process tells the simulated NVML: a file PID in a directory that both know.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sim {

struct PublishedUsage {
  static constexpr size_t kMaxDevices = 64;
  uint64_t used_bytes[kMaxDevices];  // 0: the process does not use the device
};

// The bytes of a device's UUID, but for the last one, which is its ordinal.
inline constexpr char kUuid[16] = "vramtrack sim  ";

}  // namespace sim

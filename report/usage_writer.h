// Adds to a capture that is being written what was measured of its process from outside: the memory the driver takes for it, and the
// memory it has on the host.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "interpose/capture_format.h"

namespace vramtrack {

class UsageWriter {
 public:
  // One sample: `bytes` used by process `pid` on the device `uuid`. False: the capture at `path` is not this process's. Nothing is
  // added if it has no such device yet, or its program has begun to tear itself down.
  bool add(const std::string& path, pid_t pid, const std::array<uint8_t, 16>& uuid, uint64_t bytes);

  // One sample of what the process of the capture at `path` has on the host, if it runs here.
  void add_resident(const std::string& path);

 private:
  std::map<std::pair<std::string, uint64_t>, format::Usage> usage_;  // by file and the place of the space in it
  std::map<std::string, format::Resident> resident_;
};

}  // namespace vramtrack

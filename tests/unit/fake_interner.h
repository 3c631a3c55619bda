// What did the code under test intern? A stand-in for the capture's interner, with ordinary containers.
#pragma once

#include "interpose/interner.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace vramtrack {

struct FakeFrame {
  std::string function, file;
  uint32_t line = 0, first_line = 0;
  uintptr_t return_address = 0;  // native frames; 0 = a Python frame or a marker

  auto operator<=>(const FakeFrame&) const = default;
};

struct Interner {
  std::mutex mutex;
  std::vector<FakeFrame> frames{1};  // by id; 0 is reserved
  std::map<FakeFrame, uint32_t> ids;
  uint32_t generation = 0;
  uint32_t calls = 0;  // how often a cache missed

  uint32_t intern(FakeFrame frame);
  FakeFrame frame(uint32_t id);
};

}  // namespace vramtrack

// A finding: what is wrong (or looks wrong and is not), how sure we are, on what evidence, where, and what to change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/heap.h"

namespace vramtrack {

enum class Severity : uint8_t {
  kInfo,   // looks like a leak and is none: says why
  kWaste,  // bounded, but memory the program need not hold
  kLeak,   // grows without bound or can never be freed
};
enum class Confidence : uint8_t { kLow, kMedium, kHigh };

std::string_view to_string(Severity);
std::string_view to_string(Confidence);

struct FindingSite {
  uint32_t site = 0;  // Site::id; 0: no allocation site, `stack` tells where (e.g. an invalid free)
  Stack stack;
  uint64_t bytes = 0, blocks = 0;      // of this finding
  uint64_t allocations = 0, frees = 0;
  std::string category;  // "parameter", "activation", ...; "" = not a framework's block
};

struct Finding {
  std::string id;  // one of the ids of the JSON contract, e.g. "retained-intermediates"
  Severity severity = Severity::kInfo;
  Confidence confidence = Confidence::kLow;
  int space = -1;  // index into Heap::spaces
  Kind kind = Kind::kDevice;
  uint64_t bytes = 0;   // that would be won back
  uint64_t blocks = 0;
  double bytes_per_step = 0;  // per step where steps are known, else 0
  uint32_t first_step = 0, last_step = 0;
  std::string title;                  // one line
  std::vector<std::string> evidence;  // one line each
  std::string advice;                 // one line
  std::vector<FindingSite> sites;     // worst first; the first names the line to look at
};

}  // namespace vramtrack

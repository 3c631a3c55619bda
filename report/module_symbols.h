// What one object file says about some of its addresses: functions, lines, inlined calls.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/heap.h"

namespace vramtrack {

struct ModuleSymbols {
  // One entry per address asked for, innermost location first; empty: nothing is known.
  std::vector<std::vector<Location>> locations;
  std::string problem;  // why the file could not be used, "" = it could
};

// `addresses` are those of the object (as linked), inside the instructions meant. The file must have `build_id`, unless that
// is empty. `debug_path` is searched first for the file and its debug file; "" = only the system's places.
ModuleSymbols module_symbols(const std::string& path, const std::string& build_id, std::span<const uint64_t> addresses,
                             const std::string& debug_path);

// A C++ name as a person says it: demangled, without parameters and return type.
std::string readable_function(const char* linkage_name);

}  // namespace vramtrack

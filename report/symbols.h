// Which functions and lines the native addresses of a heap are.
//
// Opens the modules of the capture by path, on this machine, and only those whose build-id is the recorded one: a rebuilt
// program must not lend its new lines to old addresses. Debug information may lie in the module, or in a separate file found
// by build-id or .gnu_debuglink; nothing is downloaded. Modules without it give function names only.
#pragma once

#include <string>

#include "report/heap.h"

namespace vramtrack {

struct SymbolOptions {
  std::string debug_path;  // a directory searched for modules and debug files before the system's; "" = none
};

// Fills Frame::locations of the native frames that a site or an incident uses; the others stay empty. What could not be
// resolved and why goes to Process::notes, one line each.
void resolve(Heap&, const SymbolOptions& = {});

}  // namespace vramtrack

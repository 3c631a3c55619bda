// The runtime function behind a driver call: what the program wrote where its runtime is linked statically.
//
// A shared runtime's cudaMalloc is intercepted and lends its name when the program runs. A static one calls the driver from
// inside the program, and is seen in the stack only.
#pragma once

#include "report/heap.h"

namespace vramtrack {

// Sites and incidents of the driver whose stack begins with the runtime's own frames get the runtime function as `api` and
// lose those frames. Frames must have been resolved.
void name_runtime_calls(Heap&);

}  // namespace vramtrack

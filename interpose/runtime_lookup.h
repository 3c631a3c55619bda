// Which runtime would this caller have called without us?
//
// A process may hold several: one in the global scope, one that a framework brought along out of sight (RTLD_LOCAL), and
// statically linked ones that their libraries export. Each keeps its own state, so a call must reach its caller's.
#pragma once

namespace vramtrack {

// `name`: static storage. Never null: where there is no such function, one that answers cudaErrorSharedObjectSymbolNotFound.
// Keeps errno. A repeated call from the same place costs two loads.
void* real_runtime_function(const char* name, const void* return_address);

// A library may have been unloaded: the same place of call may be another's from now on.
void forget_runtime_functions();

}  // namespace vramtrack

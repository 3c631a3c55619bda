// Which library's function would this caller have called without us?
//
// A process may hold several runtimes, and several cuBLASes: one in the global scope, one that a framework brought along out of sight
// (RTLD_LOCAL), and statically linked ones that their libraries export. Each keeps its own state, so a call must reach its caller's.
#pragma once

#include <string_view>

namespace vramtrack {

// `library`: how the file names of its shared object begin ("libcudart.so"). `name`: static storage. Null: there is no such function.
// Keeps errno. A repeated call from the same place costs two loads.
void* real_shared_function(std::string_view library, const char* name, const void* return_address);

// A library may have been unloaded: the same place of call may be another's from now on.
void forget_shared_functions();

}  // namespace vramtrack

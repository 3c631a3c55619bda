// A library that we open for ourselves, some of whose calls of the system come to us instead.
//
// libunwind checks addresses that it is not sure of by writing to a pipe, which it opens at the lowest free descriptors. In a guest that
// is a danger to the program: it may close those numbers, as daemons do, and get them again for its own files. Our copy asks us.
#pragma once

#include <span>

namespace vramtrack {

struct ReplacedCall {
  const char* name;  // of an imported function
  void* function;
};

// Opens `file_name` from beside this library, else by the loader's rules if the program has not loaded it, and replaces its calls. Null:
// it is not there, or its calls could not be replaced. Takes the loader's lock; it stays loaded.
void* open_own_library(const char* file_name, std::span<const ReplacedCall>);

// False: reading a word there would fault. Uses no descriptor, and no system call that a sandbox would refuse.
bool is_readable(const void* address);

}  // namespace vramtrack

// Can a program be traced by preloading, and where is the library to preload?
#pragma once

#include <string>

namespace vramtrack {

// The library that belongs to this command: beside it in ../lib, built or installed. "" if there is none.
std::string find_library();

// Where a shell would find `program`, "" if nowhere.
std::string find_program(const std::string& program);

bool is_executable_file(const std::string& path);

struct Preloadable {
  std::string why_not;            // "it is statically linked", ...; "" = it can be
  bool other_architecture = false;  // the dynamic loader would complain of our library on the program's stderr
};

// Follows `#!` lines to the interpreter, which is what runs.
Preloadable preloadable(const std::string& path);

}  // namespace vramtrack

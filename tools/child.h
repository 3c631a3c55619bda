// Runs a program as if vramtrack were not there: same standard streams, directory, signals; its end is told.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "report/capture_reader.h"

namespace vramtrack {

struct ChildResult {
  pid_t pid = 0;
  int exec_errno = 0;  // why the program could not be executed, 0 = it could
  ProcessEnd end;
};

// Searches PATH as a shell does. `prepare` runs in the child before it becomes the program, e.g. to set its environment.
// Until the program ends, signals sent to this process go on to it; those from the terminal reach it anyway.
ChildResult run_child(const std::vector<std::string>& command, const std::function<void()>& prepare);

// Ends this process as the child ended: with its code, or by its signal (without a core: the program has left its own).
[[noreturn]] void end_like(ProcessEnd);

}  // namespace vramtrack

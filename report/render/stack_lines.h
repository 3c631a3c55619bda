// A stack as a person reads it: the user's frames one by one, everyone else's folded to a line that says whose they are.
#pragma once

#include <string>
#include <vector>

#include "report/heap.h"

namespace vramtrack {

struct StackLine {
  bool is_user = false;
  std::string function;  // of the user's frame, or the text of a fold: "... 11 frames of torch"
  std::string file;      // "" for a fold
  int line = 0;
};

// Innermost first. Library frames outside the outermost user frame (the interpreter's start, main's caller) are left out.
std::vector<StackLine> fold_stack(const Heap&, const Stack&);

}  // namespace vramtrack

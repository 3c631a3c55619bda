// How the findings say places, so that all of them say them alike.
#pragma once

#include <string>
#include <vector>

#include "report/heap.h"
#include "report/words.h"

namespace vramtrack {

std::string place_text(const Location&);       // "train.py:31 in evaluate()"
std::string place_text(const Heap&, const Stack&);  // of the user's own line; "an unknown place" if none is known

// The same with the user's function that called it: "models.py:12 in build(), called at train.py:31 in main()".
std::string call_text(const Heap&, const Stack&);

// The line alone, unless other callers' blocks are allocated on it as well: a helper's line says nothing without who called it.
std::string place_among_others(const Heap&, const Stack&);

// The user's own lines, innermost first.
std::vector<Location> user_lines(const Heap&, const Stack&);

// Equal for two places in the same function; for two sites whose user's lines are.
std::string function_key(const Location&);
std::string function_key(const Heap&, const Site&);

}  // namespace vramtrack

// How the findings say sizes and places, so that all of them say them alike.
#pragma once

#include <string>

#include "report/heap.h"

namespace vramtrack {

std::string size_text(double bytes);           // "17.2 MiB"
std::string count_text(uint64_t, std::string_view noun);  // "1 block", "3 blocks"
std::string place_text(const Location&);       // "train.py:31 in evaluate()"
std::string place_text(const Heap&, const Stack&);  // of the user's own line; "an unknown place" if none is known

// The same with the user's function that called it: "models.py:12 in build(), called at train.py:31 in main()".
std::string call_text(const Heap&, const Stack&);

}  // namespace vramtrack

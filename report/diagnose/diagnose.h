// All findings of a heap, worst first: the entry to diagnosis.
#pragma once

#include <vector>

#include "report/diagnose/finding.h"
#include "report/heap.h"

namespace vramtrack {

// A pure function; frames should have been resolved (symbols.h) for the advice to name native lines.
std::vector<Finding> diagnose(const Heap&);

}  // namespace vramtrack

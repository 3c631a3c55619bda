// When were the survivors of a site born: one an iteration, several, or all in one go?
#pragma once

#include <span>

#include "report/heap.h"

namespace vramtrack {

struct Births {
  size_t blocks = 0;
  size_t iterations = 0;     // bursts of births, as far as the order of allocations tells them apart
  double per_iteration = 0;  // blocks born together
  uint64_t shortest_gap = 0;  // allocations of the process from one birth to the next, nine of ten being longer
  uint64_t first_serial = 0, last_serial = 0;
  // Where every iteration takes more allocations than the one before: what an early and a late one take. 0 = they do not.
  uint64_t early_gap = 0, late_gap = 0;
};

// Of survivors of one site or several, merged.
Births births_of(std::span<const Site* const> sites);
Births births_of(const Site&);

// Iterations in which something of the site survived: the steps, where nearly every step left something; else the bursts of births.
size_t iterations_of(const Heap&, const Site&);

// Share of the allocations from the first survivor to the last that survived, 0 to 1. Near 1: nothing else was allocated in
// between, so they were made in one go, before whatever used them.
double density(const Births&);
inline constexpr double kBackToBack = 0.9;  // more is such a making in one go

// What PyTorch's caching allocator rounds a scalar up to: a loss, a metric.
inline constexpr uint64_t kScalarBytes = 512;

// The program went on for a while after the last was made: things of the program, not of its iterations, which go on to its end.
// Work that the device still did counts as well, so only what lasted longer than the making says something; `in_one_go`: nothing
// else was made meanwhile, then less is enough.
bool is_used_for_a_while(const Heap&, const Site&, bool in_one_go);

// Given back each time before the next ones are made, rather than all in the end.
bool is_freed_each_time(const Site&);

// The making took the whole run: it was not done in advance.
bool is_made_all_along(const Heap&, const Site&);

// Of all blocks the site ever allocated, in bytes.
double average_size(const Site&);

}  // namespace vramtrack

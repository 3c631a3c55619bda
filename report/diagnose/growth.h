// How did the floor of a site move over the run: flat, once up and then still, up and down, or up without end?
//
// The floor is what survives a whole window, so a block that comes and goes within a step does not show. A fall at the very
// end of a program that ended by itself (destructors, an interpreter's teardown) is set aside: it says how the program ended, not how
// it ran.
#pragma once

#include "report/heap.h"

namespace vramtrack {

enum class Shape : uint8_t {
  kFlat,      // nothing to see, or too little to tell
  kSettled,   // rose and has been still since: warm-up, a bounded cache, a high-water mark
  kSawTooth,  // rises and is given back, again and again
  kRising,    // still rising where the work ended
};

struct Growth {
  Shape shape = Shape::kFlat;
  double bytes = 0;        // that the floor rose and never gave back
  double amplitude = 0;    // of the deepest fall before the end, in bytes
  double begin = 0;        // where in the run the rise begins and ends, 0 = start, 1 = end of the work
  double end = 0;
  int rises = 0;           // points of the curve at which the floor rose for good
  int falls = 0;           // deep falls before the end
  bool even = false;       // about as much in the second half of the rise as in the first
  bool fell_at_end = false;
};

Growth growth_of(const Curve&, bool ended_by_itself = true);

// The same, and settled when the number of blocks has long been at rest: a pool whose members are replaced by larger ones, or
// come and go at random, has a rising floor for chance's sake.
Growth growth_of(const Site&, bool ended_by_itself);

}  // namespace vramtrack

// What lies around us in this process: an unwinder, a Python interpreter. Finding them takes the loader's lock, so that is done
// ahead of the events that need them, and where the program can hold no allocator's lock.
#pragma once

#include <atomic>

#include "interpose/python_frames.h"
#include "interpose/unwinder.h"

namespace vramtrack {

// Null: not found, or not yet. What they point at stays for the life of the process, and holds for forked children too.
struct Surroundings {
  std::atomic<const Unwinder*> unwinder;
  std::atomic<const PythonInterpreter*> python;
};

const Surroundings& surroundings();

// Looks for what has not been found yet; cheap when there is nothing more to look for. `changed` is called after each discovery,
// at the latest from a pending call of Python's, which finds out whether its frames are read rightly.
void look_around(void (*changed)());

// In the child of a fork, before anything else is asked.
void surroundings_after_fork();

}  // namespace vramtrack

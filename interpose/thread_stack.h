// Where does the calling thread's stack lie?
#pragma once

#include <cstdint>

namespace vramtrack {

// Addresses of the calling thread's own stack: from anywhere in it up to `end`, all of it is mapped while the thread lives.
// A frame outside is on an alternate signal stack or a coroutine's: nothing is known of what lies above it.
struct StackRange {
  uintptr_t begin, end;  // empty = not known

  bool contains(uintptr_t address) const { return address >= begin && address < end; }
};

// Needs no lock and no memory of the program's; reads /proc/self/maps once for a thread that is not the main one, which takes
// up to some milliseconds. Changes errno.
//
// Rejected: pthread_getattr_np, which allocates, and for the main thread also reads /proc/self/maps through stdio.
StackRange find_thread_stack();

}  // namespace vramtrack

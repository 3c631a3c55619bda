// What do the driver's pools of a device hold, and how much of that does nothing use?
#pragma once

#include <cstdint>

#include "report/heap.h"

namespace vramtrack {

// Bytes in no block when the program's work ended; pools that it destroyed hold nothing.
uint64_t idle_in_pools(const Heap&, int device);

// Bytes that they held around that time, in seconds, in use or not.
uint64_t reserved_in_pools(const Heap&, int device, double time);

}  // namespace vramtrack

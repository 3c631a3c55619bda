// What do the driver's pools of a device hold that nothing uses?
#pragma once

#include <cstdint>

#include "report/heap.h"

namespace vramtrack {

// Bytes, when the pools were last asked; those that the program destroyed hold nothing.
uint64_t idle_in_pools(const Heap&, int device);

// The least of it around that time, in seconds.
uint64_t idle_in_pools(const Heap&, int device, double time);

}  // namespace vramtrack

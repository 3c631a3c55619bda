// What PyTorch's cache keeps for streams that are used no more; see stranded_stream.cpp.
#pragma once

#include <cstdint>

#include "report/heap.h"

namespace vramtrack {

// Bytes on a device that serve no stream in use.
uint64_t stranded_bytes(const Heap&, int device);

}  // namespace vramtrack

// Who this process is, as the capture says it: pid, argv, host, rank, time. Read from /proc and the environment, once.
#pragma once

#include "interpose/capture_format.h"
#include "interpose/interner.h"

namespace vramtrack {

void describe_process(format::Header&, Interner&);

// The capture's path from the pattern of settings.h, absolute. `attempt` > 0 asks for another name. False: it does not fit.
bool capture_path(const char* pattern, int attempt, char* to, size_t size);

}  // namespace vramtrack

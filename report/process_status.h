// Is the process of a capture still running on this machine, and since when is it recorded?
#pragma once

#include <cstdint>
#include <string_view>

namespace vramtrack {

// False too where it cannot be told: another host, another pid namespace. `start_ticks` (field 22 of /proc/PID/stat) tells the
// process from a later one that was given the same pid. A process that is dead but not yet waited for does not run.
bool process_is_running(int pid, uint64_t start_ticks, std::string_view host);

// Bytes of the process that are in the host's memory; 0 = it does not run here.
uint64_t resident_bytes(int pid, uint64_t start_ticks);

// Milliseconds since a recording began, on the machine and in the boot in which it was made; 46 days at most.
uint32_t recording_age_ms(uint64_t start_monotonic_ns);

}  // namespace vramtrack

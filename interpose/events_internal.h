// What the files behind events.h share: where an event comes from, and in which memory it happened.
#pragma once

#include "interpose/events.h"
#include "interpose/process.h"

namespace vramtrack {

inline constexpr int kSuccess = 0;  // CUresult

struct Origin {
  StackRef stack;
  uint32_t thread = 0;
};

Origin origin_of(Recording&, CallSite, Backward);
Origin driver_origin(Recording&);  // of the thread's outermost Call; nothing outside of one

// No space where a call failed before there was a device.
SpaceKey driver_space(format::Kind, int device);

// No device is like the first one.
SpaceKey handle_space(int device);

// Milliseconds since the recording began: a recent allocation or free, whoever's. Costs no reading of a clock.
inline uint32_t time_of_last_event(const Recording& r) { return r.file.header->last_time_ms.load(std::memory_order_relaxed); }

// Of the stream that PyTorch allocates on now; 0 = there is none, or it cannot be asked.
uint16_t number_of_torch_stream(Recording&, int device);

// A bit per format::Kind that a free function of the family accepts.
uint64_t kinds_of(FreeFamily);

// A Python program's work is over when its interpreter starts to finalise: from then on it frees everything it still holds.
void notice_end_of_work(Recording&);

}  // namespace vramtrack

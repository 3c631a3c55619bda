// Which of PyTorch's streams is a block for, and when was something last allocated on each?
//
// PyTorch's cache keeps what is freed for the stream it was allocated on: what a stream leaves behind serves no other.
// Thread-safety: everything may be called from any thread. Bounded: streams beyond kMaxTorchStreams have no number.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/capture_file.h"
#include "interpose/lock.h"

namespace vramtrack {

inline constexpr uint32_t kMaxTorchStreams = 64;

struct TorchStreams {
  Lock lock;
  std::atomic<uint32_t> count;
  struct Known {
    int64_t id;
    int device;
    uint32_t record;  // in the capture: its number
  } known[kMaxTorchStreams];
};

// Its number; 0 = it has none.
uint16_t number_of_stream(TorchStreams&, CaptureFile&, int device, int64_t id);

// Something was allocated on it.
void note_stream_use(CaptureFile&, uint16_t number);

}  // namespace vramtrack

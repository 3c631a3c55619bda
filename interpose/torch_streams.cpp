// Which of PyTorch's streams is a block for, and when was something last allocated on each? See torch_streams.h.
#include "interpose/torch_streams.h"

namespace vramtrack {
namespace {

// 0: not among those known by now.
uint16_t find(const TorchStreams& streams, int device, int64_t id) {
  const uint32_t count = streams.count.load(std::memory_order_acquire);  // pairs with add
  for (uint32_t i = 0; i < count; i++)
    if (streams.known[i].id == id && streams.known[i].device == device) return static_cast<uint16_t>(streams.known[i].record);
  return 0;
}

uint16_t add(TorchStreams& streams, CaptureFile& file, int device, int64_t id) {
  Locked hold(streams.lock);
  if (const uint16_t known = find(streams, device, id)) return known;
  const uint32_t i = streams.count.load(std::memory_order_relaxed);
  if (i == kMaxTorchStreams) return 0;
  format::Stream stream = {};
  stream.id = id;
  stream.device = static_cast<int16_t>(device);
  streams.known[i] = {id, device, append(file, format::kStreams, &stream)};
  streams.count.store(i + 1, std::memory_order_release);  // pairs with find
  return static_cast<uint16_t>(streams.known[i].record);
}

}  // namespace

uint16_t number_of_stream(TorchStreams& streams, CaptureFile& file, int device, int64_t id) {
  const uint16_t known = find(streams, device, id);
  return known ? known : add(streams, file, device, id);
}

// Without a lock: whoever comes later is late enough.
void note_stream_use(CaptureFile& file, uint16_t number) {
  if (!number) return;
  const format::Header& header = *file.header;
  format::Stream& stream = record<format::Stream>(file, format::kStreams, number);
  stream.last_step = header.steps.load(std::memory_order_relaxed);
  stream.last_time_ms = header.last_time_ms.load(std::memory_order_relaxed);
  stream.last_serial = header.serial.load(std::memory_order_relaxed) + 1;
}

}  // namespace vramtrack

// Does PyTorch's cache hold memory for a stream that nothing is allocated on any more? What is freed is kept for the stream it was
// allocated on, and serves no other.
//
// The look-alike is a side stream that every step uses (a copy, a second model): what it frees it takes again.
#include <fmt/format.h>

#include <algorithm>

#include "report/diagnose/families.h"
#include "report/diagnose/stranded_stream.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr double kLeastBytes = 64 << 20;
constexpr double kLeastShare = 0.05;   // of what is held for all streams of the device
constexpr double kUnusedShare = 0.3;   // of the run, at its end, without an allocation on the stream
constexpr uint32_t kFewestSteps = 5;   // in that time; where there are no steps,
constexpr double kFewestSeconds = 1;

// What PyTorch took from the driver for a stream, and what of that its blocks use, when the program's work ended.
struct StreamMemory {
  uint64_t held_bytes = 0, live_bytes = 0;
  std::vector<const Site*> made_by;  // the segments' sites, most bytes first

  double idle_bytes() const { return static_cast<double>(held_bytes) - static_cast<double>(std::min(live_bytes, held_bytes)); }
};

// Of each of Heap::streams.
std::vector<StreamMemory> memory_of_streams(const Heap& heap) {
  std::vector<StreamMemory> streams(heap.streams.size());
  for (const Site& site : heap.sites) {
    const bool is_segments = is_framework_segment(heap, site);
    if (!is_segments && space_of(heap, site).layer == Layer::kDriver) continue;  // the program's own
    for (const Block& block : site.survivors) {
      if (block.stream < 0) continue;
      StreamMemory& stream = streams[static_cast<size_t>(block.stream)];
      (is_segments ? stream.held_bytes : stream.live_bytes) += block.size;
      if (is_segments && (stream.made_by.empty() || stream.made_by.back() != &site)) stream.made_by.push_back(&site);
    }
  }
  for (StreamMemory& stream : streams) std::ranges::stable_sort(stream.made_by, std::greater<>(), &Site::end_bytes);
  return streams;
}

bool is_used_no_more(const Process& process, const Stream& stream) {
  const double unused = static_cast<double>(process.allocations - std::min(process.allocations, stream.last_serial));
  if (unused < kUnusedShare * static_cast<double>(process.allocations)) return false;
  if (process.steps > 0) return process.steps >= stream.last_step + kFewestSteps;
  return end_of_work(process) - stream.last_time >= kFewestSeconds;
}

Finding stranded(const Heap& heap, const Stream& stream, const StreamMemory& memory) {
  Finding finding;
  finding.id = "stranded-stream";
  finding.severity = Severity::kWaste;
  finding.confidence = Confidence::kHigh;
  finding.space = memory.made_by.front()->space;
  finding.bytes = static_cast<uint64_t>(memory.idle_bytes());
  const std::string since = stream.last_step > 0 ? fmt::format("step {} ({:.1f} s)", stream.last_step, stream.last_time)
                                                 : fmt::format("{:.1f} s", stream.last_time);
  finding.title = fmt::format("{} of PyTorch's cache on cuda:{} serve a side stream that nothing has used since {}",
                              size_text(static_cast<double>(finding.bytes)), stream.device, since);
  for (const Site* site : memory.made_by) {
    finding.sites.push_back({site->id, site->stack, site->end_bytes, site->end_blocks, site->allocations, site->frees, ""});
  }
  finding.evidence = {fmt::format("{} were taken from the device for it, first at {}; {} of it are in use", size_text(static_cast<double>(memory.held_bytes)),
                                  place_text(heap, finding.sites.front().stack), size_text(static_cast<double>(memory.live_bytes))),
                      "what is freed on a stream is kept for that stream and serves no other"};
  finding.advice = "Call `torch.cuda.empty_cache()` when the work on the side stream is done; or allocate on the main stream, use the "
                   "tensors on the other one, and `record_stream` them.";
  return finding;
}

bool is_stranded(const Heap& heap, const std::vector<StreamMemory>& memory, size_t i) {
  double held = 0;
  for (size_t k = 0; k < memory.size(); ++k) {
    if (heap.streams[k].device == heap.streams[i].device) held += static_cast<double>(memory[k].held_bytes);
  }
  return memory[i].idle_bytes() >= std::max(kLeastBytes, kLeastShare * held) && is_used_no_more(heap.process, heap.streams[i]);
}

}  // namespace

uint64_t stranded_bytes(const Heap& heap, int device) {
  const std::vector<StreamMemory> memory = memory_of_streams(heap);
  uint64_t bytes = 0;
  for (size_t i = 0; i < memory.size(); ++i) {
    if (heap.streams[i].device == device && is_stranded(heap, memory, i)) bytes += static_cast<uint64_t>(memory[i].idle_bytes());
  }
  return bytes;
}

std::vector<Finding> find_stranded_streams(Examination& exam) {
  std::vector<Finding> found;
  const std::vector<StreamMemory> memory = memory_of_streams(exam.heap);
  for (size_t i = 0; i < memory.size(); ++i) {
    if (is_stranded(exam.heap, memory, i)) found.push_back(stranded(exam.heap, exam.heap.streams[i], memory[i]));
  }
  return found;
}

}  // namespace vramtrack

// What do PyTorch's reports mean to the recording? See events.h.
#include <atomic>

#include "interpose/call.h"
#include "interpose/events_internal.h"

namespace vramtrack {

using namespace format;

namespace {

constexpr int kTorchCpu = 0;

// Engine::execute on this thread: the innermost call's frame and how many there are. Deeper frames are inside it; once an event
// comes from a shallower one, an exception has left it without a destructor's help.
struct BackwardOfThread {
  uintptr_t frame;
  uint32_t depth;
  uint64_t counted_in;  // the epoch of the recording that counts this thread as being in backward; 0 = none does
};
thread_local BackwardOfThread own_backward;

constinit std::atomic<CurrentTorchStream*> current_torch_stream{nullptr};

SpaceKey torch_space(const TorchReport& report) {
  if (report.device_type == kTorchCpu) return {Layer::kPytorch, Memory::kCpu, -1};
  return {Layer::kPytorch, Memory::kDevice, report.device_index < 0 ? 0 : report.device_index};
}

void leave_backward() {
  Recording* r = present_recording();
  if (r && r->epoch == own_backward.counted_in) r->threads_in_backward.fetch_sub(1, std::memory_order_relaxed);
  own_backward = {};
}

bool inside_backward(CallSite site) {
  if (!own_backward.depth) return false;
  if (site.frame < own_backward.frame) return true;
  leave_backward();
  return false;
}

Backward backward_of(const Recording& r, CallSite site) {
  if (inside_backward(site)) return Backward::kCaller;
  return r.threads_in_backward.load(std::memory_order_relaxed) ? Backward::kBorrower : Backward::kNone;
}

void note_torch(Recording& r) {
  if (r.file.header->torch != TorchState::kReporting) r.file.header->torch = TorchState::kReporting;
}

}  // namespace

void torch_streams_known(CurrentTorchStream* current) { current_torch_stream.store(current, std::memory_order_relaxed); }

uint16_t number_of_torch_stream(Recording& r, int device) {
  CurrentTorchStream* const current = current_torch_stream.load(std::memory_order_relaxed);
  return current ? number_of_stream(r.torch_streams, r.file, device, current(device)) : uint16_t{0};
}

void torch_block(const TorchReport& report, CallSite site) {
  OwnWork work;
  if (!work.entered() || !report.address || !report.size) return;
  Recording* r = recording_for_event();
  if (!r) return;
  note_torch(*r);
  const SpaceKey space = torch_space(report);
  if (report.size < 0) {
    notice_end_of_work(*r);
    record_free(r->recorder, space, report.address, report.total_reserved);
  } else {
    const Origin origin = origin_of(*r, site, backward_of(*r, site));
    if (origin.stack.optimizer_step && !r->native_steps.load(std::memory_order_relaxed))
      record_step(r->recorder, StepSource::kOptimizer);
    const bool on_host = space.memory == Memory::kCpu;
    const uint16_t stream = on_host ? uint16_t{0} : number_of_torch_stream(*r, space.device);
    record_allocation(r->recorder, {space, on_host ? Kind::kCpu : Kind::kDevice, report.address, static_cast<uint64_t>(report.size), 0,
                                    nullptr, origin.stack.id, origin.thread, 0, report.total_reserved, stream});
    note_stream_use(r->file, stream);
  }
}

void torch_out_of_memory(const TorchReport& report, CallSite site) {
  OwnWork work;
  if (!work.entered()) return;
  Recording* r = recording_for_event();
  if (!r) return;
  note_torch(*r);
  IncidentReport incident = {IncidentKind::kOutOfMemory};
  incident.space = torch_space(report);
  incident.stack = origin_of(*r, site, backward_of(*r, site)).stack.id;
  incident.size = static_cast<uint64_t>(report.size);
  incident.reserved_bytes = report.total_reserved;
  record_incident(r->recorder, incident);
}

void torch_unsupported() {
  OwnWork work;
  Recording* r = work.entered() ? recording_for_event() : nullptr;
  if (r) r->file.header->torch = TorchState::kUnsupportedVersion;
}

void step_begins(StepSource source) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (!r) return;
  if (source == StepSource::kOptimizer) r->native_steps.store(true, std::memory_order_relaxed);
  record_step(r->recorder, source);
}

BackwardScope::BackwardScope(CallSite site) {
  OwnWork work;
  inside_backward(site);  // forgets calls that an exception left
  saved_frame_ = own_backward.frame;
  own_backward.frame = site.frame;
  own_backward.depth++;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (!r) return;
  if (own_backward.counted_in != r->epoch) {
    own_backward.counted_in = r->epoch;
    if (r->threads_in_backward.fetch_add(1, std::memory_order_relaxed) == 0)
      r->file.header->backward_passes.fetch_add(1, std::memory_order_relaxed);
  }
  ThreadState* thread = thread_state(r->epoch);
  // A backward inside a backward runs on an engine's thread, which has nothing better to lend than what it borrows.
  const uint32_t stack = thread ? take_backward_stack(r->stacks, *thread) : 0;
  if (stack) r->stacks.lent_stack.store(stack, std::memory_order_relaxed);
}

BackwardScope::~BackwardScope() {
  if (!own_backward.depth) return;
  own_backward.frame = saved_frame_;
  if (--own_backward.depth == 0) leave_backward();
  if (Recording* r = present_recording())
    r->file.header->last_backward_serial = r->file.header->serial.load(std::memory_order_relaxed);
}

}  // namespace vramtrack

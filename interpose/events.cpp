// What does a hook's event mean to the recording? See events.h.
#include "interpose/events.h"

#include <atomic>

#include "interpose/call.h"
#include "interpose/clock.h"
#include "interpose/process.h"

namespace vramtrack {
namespace {

using namespace format;

// CUresult values that the bookkeeping of frees must tell apart; see cuda.h.
constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kDeinitialized = 4;
constexpr int kInvalidHandle = 400;
constexpr int kContextIsDestroyed = 709;
constexpr int kHostMemoryNotRegistered = 713;

constexpr int kTorchCpu = 0;

// Engine::execute on this thread: the innermost call's frame and how many there are. Deeper frames are inside it; once an event
// comes from a shallower one, an exception has left it without a destructor's help.
struct BackwardOfThread {
  uintptr_t frame;
  uint32_t depth;
  uint64_t counted_in;  // the epoch of the recording that counts this thread as being in backward; 0 = none does
};
thread_local BackwardOfThread own_backward;

uint32_t bit(Kind kind) { return 1u << static_cast<uint32_t>(kind); }

uint32_t kinds_of(FreeFamily family) {
  switch (family) {
    case FreeFamily::kDeviceMemory: return bit(Kind::kDevice) | bit(Kind::kStreamOrdered) | bit(Kind::kManaged) | bit(Kind::kGraphMemory);
    case FreeFamily::kPinned: return bit(Kind::kPinned);
    case FreeFamily::kRegistered: return bit(Kind::kRegistered);
    case FreeFamily::kArray: return bit(Kind::kArray);
    case FreeFamily::kMipmappedArray: return bit(Kind::kMipmappedArray);
  }
  return 0;
}

// No space where a call failed before there was a device.
SpaceKey driver_space(Kind kind, int device) {
  if (kind == Kind::kPinned || kind == Kind::kRegistered) return {Layer::kDriver, Memory::kPinnedHost, -1};
  if (device < 0) return {};
  return {Layer::kDriver, Memory::kDevice, device};
}

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

struct Origin {
  StackRef stack;
  uint32_t thread = 0;
};

Origin origin_of(Recording& r, CallSite site, Backward backward) {
  ThreadState* thread = thread_state(r.epoch);
  if (!thread) return {};
  return {take_stack(r.stacks, *thread, site, backward), thread->id};
}

Origin driver_origin(Recording& r) {
  if (!Call::outermost().api) return {};
  return origin_of(r, Call::outermost().site, Backward::kNone);
}

// A Python program's work is over when its interpreter starts to finalise: from then on it frees everything it still holds.
void notice_end_of_work(Recording& r) {
  if (r.file.header->work_ended_serial) return;
  const PythonInterpreter* python = surroundings().python.load(std::memory_order_acquire);
  if (python && python_is_finalizing(*python)) record_work_ended(r.recorder);
}

void note_invalid_free(Recording& r, uint64_t address, int result) {
  const AddressHistory history = history_of(r.recorder, address);
  IncidentReport report = {IncidentKind::kInvalidFree};
  report.fault = history.live ? FreeFault::kWrongFamily : history.site ? FreeFault::kDoubleFree : FreeFault::kUnknownPointer;
  report.space = history.space;
  report.stack = driver_origin(r).stack.id;
  report.api = Call::outermost().api;
  report.detail = result;
  report.other_site = history.site;
  report.address = address;
  report.size = history.size;
  record_incident(r.recorder, report);
}

void note_torch(Recording& r) {
  if (r.file.header->torch != TorchState::kReporting) r.file.header->torch = TorchState::kReporting;
}

bool blames_the_pointer(int result) {
  return result == kInvalidValue || result == kInvalidHandle || result == kHostMemoryNotRegistered;
}
bool driver_is_gone(int result) { return result == kDeinitialized || result == kContextIsDestroyed; }

}  // namespace

// --- the driver's own allocations ---------------------------------------------------------------------------------------

void driver_allocated(const DriverBlock& block) {
  OwnWork work;
  if (!work.entered() || !block.address) return;
  Recording* r = recording_for_event();
  if (!r) return;
  const Origin origin = driver_origin(*r);
  record_allocation(r->recorder, {driver_space(block.kind, block.device), block.kind, block.address, block.size, block.owner,
                                  Call::outermost().api, origin.stack.id, origin.thread});
}

void driver_refused(const RefusedAllocation& refused) {
  OwnWork work;
  if (!work.entered()) return;
  Recording* r = recording_for_event();
  if (!r) return;
  IncidentReport report = {refused.out_of_memory ? IncidentKind::kOutOfMemory : IncidentKind::kFailedCall};
  report.space = driver_space(refused.kind, refused.device);
  report.stack = driver_origin(*r).stack.id;
  report.api = Call::outermost().api;
  report.detail = refused.result;
  report.size = refused.size;
  record_incident(r->recorder, report);
}

void driver_handle_created(const DriverHandle& handle) {
  OwnWork work;
  if (!work.entered() || !handle.handle) return;
  Recording* r = recording_for_event();
  if (!r) return;
  const Origin origin = driver_origin(*r);
  const SpaceKey space = {Layer::kHandles, Memory::kDevice, handle.device < 0 ? 0 : handle.device};
  record_allocation(r->recorder, {space, handle.kind, handle.handle, 1, handle.owner, Call::outermost().api, origin.stack.id,
                                  origin.thread});
}

PendingFree::PendingFree(uint64_t address, FreeFamily family) : address_(address), layer_(Layer::kDriver) {
  OwnWork work;
  if (!work.entered() || !address) return;
  Recording* r = recording_for_event();
  if (!r) return;
  notice_end_of_work(*r);
  const TakenBlock taken = take_block(r->recorder, address, kinds_of(family));
  kind_ = taken.kind;
  block_ = taken.block;
  serial_ = taken.serial;
  if (block_ && kind_ != Kind::kStreamOrdered) began_ns_ = monotonic_ns();
}

PendingFree::PendingFree(uint64_t handle, Kind kind) : address_(handle), layer_(Layer::kHandles) {
  OwnWork work;
  Recording* r = work.entered() && handle ? present_recording() : nullptr;
  if (!r) return;
  notice_end_of_work(*r);
  const TakenBlock taken = take_handle(r->recorder, handle, kind);
  block_ = taken.block;
  serial_ = taken.serial;
}

void PendingFree::finish(int result) {
  OwnWork work;
  if (!work.entered() || !address_) return;
  Recording* r = present_recording();
  if (!r) return;
  const uint64_t driver_ns = began_ns_ ? monotonic_ns() - began_ns_ : 0;
  const TakenBlock taken{layer_, kind_, block_, serial_};
  if (result == kSuccess || driver_is_gone(result)) {
    if (block_) give_up(r->recorder, taken, driver_ns);
    return;
  }
  if (block_) put_back(r->recorder, taken);
  if (layer_ == Layer::kDriver && blames_the_pointer(result)) note_invalid_free(*r, address_, result);
}

void library_closed() {
  OwnWork work;
  if (Recording* r = work.entered() ? present_recording() : nullptr) notice_unloaded_modules(r->interner);
}

// --- graphs -------------------------------------------------------------------------------------------------------------

void graph_node_added(const GraphNodeReport& report) {
  OwnWork work;
  Recording* r = work.entered() && report.address ? recording_for_event() : nullptr;
  if (!r) return;
  GraphNode node = {report.graph, report.address, report.size, Call::outermost().api, 0, 0, report.device, 0, 0, 0, 0};
  if (report.size) {
    const Origin origin = driver_origin(*r);
    node.stack = origin.stack.id;
    node.thread = origin.thread;
  }
  add_graph_node(r->graphs, node);
}

void graph_copied(uint64_t copy, uint64_t graph) {
  OwnWork work;
  if (Recording* r = work.entered() ? present_recording() : nullptr) copy_graph_nodes(r->graphs, copy, graph);
}

void graph_capture_failed(uint64_t graph) { PendingGraph(graph).finish(kSuccess); }

PendingGraph::PendingGraph(uint64_t graph_or_instance) : handle_(graph_or_instance) {
  OwnWork work;
  if (Recording* r = work.entered() ? present_recording() : nullptr) nodes_ = take_graph_nodes(r->graphs, handle_);
}

void PendingGraph::finish(int result) {
  if (!nodes_) return;
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (!r) return;
  result == kSuccess ? give_up_graph_nodes(r->graphs, nodes_) : put_back_graph_nodes(r->graphs, handle_, nodes_);
}

bool graphs_have_memory() {
  const Recording* r = present_recording();
  return r && r->graphs.alive.load(std::memory_order_relaxed) != 0;
}

void graph_launched(uint64_t instance) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (!r) return;
  for_each_effect(r->graphs, instance, [&](const GraphNode& node) {
    if (node.size) {
      record_allocation(r->recorder, {driver_space(Kind::kGraphMemory, node.device), Kind::kGraphMemory, node.address, node.size, 0,
                                      node.api, node.stack, node.thread});
    } else if (const TakenBlock taken = take_block(r->recorder, node.address, kinds_of(FreeFamily::kDeviceMemory)); taken.block) {
      give_up(r->recorder, taken, 0);
    }
  });
}

void driver_context_gone(int device, uint64_t context) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (!r) return;
  const DroppedBlocks dropped = drop_context(r->recorder, device, context);
  if (!dropped.bytes) return;
  IncidentReport report = {IncidentKind::kReset};
  report.space = dropped.space;
  report.stack = driver_origin(*r).stack.id;
  report.api = Call::outermost().api;
  report.size = dropped.bytes;
  record_incident(r->recorder, report);
}

bool device_described(int device) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  return r && space_has_name(r->recorder, driver_space(Kind::kDevice, device));
}

void describe_device(int device, const char* name, uint64_t total_bytes) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (!r) return;
  name_space(r->recorder, driver_space(Kind::kDevice, device), intern_string(r->interner, name), total_bytes);
}

void memory_function_unhooked(const char* name) {
  OwnWork work;
  if (!work.entered()) return;
  remember_unhooked(name);
  if (Recording* r = present_recording()) record_unhooked(*r, name);
}

// --- PyTorch -----------------------------------------------------------------------------------------------------------

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
    record_allocation(r->recorder,
                      {space, space.memory == Memory::kCpu ? Kind::kCpu : Kind::kDevice, report.address,
                       static_cast<uint64_t>(report.size), 0, nullptr, origin.stack.id, origin.thread, 0, report.total_reserved});
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

// What does an event of the driver mean to the recording? See events.h; graph_events.cpp and torch_events.cpp have the others.
#include "interpose/events.h"

#include "interpose/call.h"
#include "interpose/clock.h"
#include "interpose/events_internal.h"

namespace vramtrack {

using namespace format;

namespace {

// CUresult values that the bookkeeping of frees must tell apart; see cuda.h.
constexpr int kInvalidValue = 1;
constexpr int kDeinitialized = 4;
constexpr int kInvalidHandle = 400;
constexpr int kContextIsDestroyed = 709;
constexpr int kHostMemoryNotRegistered = 713;

uint64_t bit(Kind kind) { return 1ull << static_cast<uint32_t>(kind); }

// Memory that was registered is the program's own: freeing it by a function for other memory frees nothing twice.
FreeFault fault_of(const AddressHistory& history, FreeFamily family) {
  if (history.live) return FreeFault::kWrongFamily;
  if (history.kind == Kind::kRegistered && family != FreeFamily::kRegistered) return FreeFault::kUnknownPointer;
  if (history.went_with_context) return FreeFault::kGoneWithContext;
  return history.site ? FreeFault::kDoubleFree : FreeFault::kUnknownPointer;
}

void note_invalid_free(Recording& r, uint64_t address, FreeFamily family, int result) {
  const AddressHistory history = history_of(r.recorder, address);
  IncidentReport report = {IncidentKind::kInvalidFree};
  report.fault = is_known_handle(r.opened, address) ? FreeFault::kWrongFamily : fault_of(history, family);
  report.space = history.space;
  report.stack = driver_origin(r).stack.id;
  report.api = Call::outermost().api;
  report.detail = result;
  report.other_site = history.site;
  report.address = address;
  report.size = history.size;
  record_incident(r.recorder, report);
}

bool blames_the_pointer(int result) {
  return result == kInvalidValue || result == kInvalidHandle || result == kHostMemoryNotRegistered;
}
bool driver_is_gone(int result) { return result == kDeinitialized || result == kContextIsDestroyed; }

}  // namespace

Origin origin_of(Recording& r, CallSite site, Backward backward) {
  ThreadState* thread = thread_state(r.epoch);
  if (!thread) return {};
  return {take_stack(r.stacks, *thread, site, backward), thread->id};
}

Origin driver_origin(Recording& r) {
  if (!Call::outermost().api) return {};
  return origin_of(r, Call::outermost().site, Backward::kNone);
}

SpaceKey driver_space(Kind kind, int device) {
  if (kind == Kind::kPinned || kind == Kind::kRegistered) return {Layer::kDriver, Memory::kPinnedHost, -1};
  const bool may_be_on_host = kind == Kind::kPhysical || kind == Kind::kStreamOrdered;
  if (device < 0) return may_be_on_host ? SpaceKey{Layer::kDriver, Memory::kPinnedHost, -1} : SpaceKey{};
  return {Layer::kDriver, kind == Kind::kShared ? Memory::kImported : Memory::kDevice, device};
}

SpaceKey handle_space(int device) { return {Layer::kHandles, Memory::kDevice, device < 0 ? 0 : device}; }

uint64_t kinds_of(FreeFamily family) {
  switch (family) {
    case FreeFamily::kDeviceMemory: return bit(Kind::kDevice) | bit(Kind::kStreamOrdered) | bit(Kind::kManaged) | bit(Kind::kGraphMemory) | bit(Kind::kShared);
    case FreeFamily::kPinned: return bit(Kind::kPinned);
    case FreeFamily::kRegistered: return bit(Kind::kRegistered);
    case FreeFamily::kArray: return bit(Kind::kArray);
    case FreeFamily::kMipmappedArray: return bit(Kind::kMipmappedArray) | bit(Kind::kShared);
  }
  return 0;
}

void notice_end_of_work(Recording& r) {
  if (r.file.header->work_ended_serial) return;
  const PythonInterpreter* python = surroundings().python.load(std::memory_order_acquire);
  if (python && python_is_finalizing(*python)) record_work_ended(r.recorder, WorkEnd::kInterpreterFinalizes);
}

// --- blocks and handles --------------------------------------------------------------------------------------------------

void driver_allocated(const DriverBlock& block) {
  OwnWork work;
  if (!work.entered() || !block.address) return;
  Recording* r = recording_for_event();
  if (!r) return;
  const Origin origin = driver_origin(*r);
  const uint16_t stream = block.kind == Kind::kDevice ? number_of_torch_stream(*r, block.device) : uint16_t{0};  // of a segment
  record_allocation(r->recorder, {driver_space(block.kind, block.device), block.kind, block.address, block.size, block.owner,
                                  Call::outermost().api, origin.stack.id, origin.thread, block.driver_ns, 0, stream});
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
  record_allocation(r->recorder, {handle_space(handle.device), handle.kind, handle.handle, 1, handle.owner, Call::outermost().api, origin.stack.id,
                                  origin.thread});
}

bool handle_is_known(uint64_t handle, Kind kind) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  return r && has_handle(r->recorder, handle, kind);
}

PendingFree::PendingFree(uint64_t address, FreeFamily family) : address_(address), layer_(Layer::kDriver), family_(family) {
  OwnWork work;
  if (!work.entered() || !address) return;
  Recording* r = recording_for_event();
  if (!r) return;
  notice_end_of_work(*r);
  const TakenBlock taken = take_block(r->recorder, address, kinds_of(family));
  kind_ = taken.kind;
  block_ = taken.block;
  serial_ = taken.serial;
  if (block_ && kind_ == Kind::kStreamOrdered) pool_ = taken.owner, size_ = taken.size;
  else if (block_) began_ns_ = monotonic_ns();
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
  const TakenBlock taken{layer_, kind_, block_, serial_, 0, 0};
  if (result == kSuccess || driver_is_gone(result)) {
    if (block_) give_up(r->recorder, taken, driver_ns);
    return;
  }
  if (block_) put_back(r->recorder, taken);
  if (layer_ == Layer::kDriver && blames_the_pointer(result)) note_invalid_free(*r, address_, family_, result);
}

// --- contexts, devices, the audit ----------------------------------------------------------------------------------------

void driver_context_gone(int device, uint64_t context) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (!r) return;
  const DroppedBlocks dropped = drop_context(r->recorder, device, context);
  forget_pieces_of(r->opened, device, context);
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

void describe_device(int device, const DeviceDescription& description) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (!r) return;
  const uint32_t name = intern_string(r->interner, description.name);
  name_space(r->recorder, driver_space(Kind::kDevice, device), name, description.total_bytes, description.uuid);
}

void memory_function_unhooked(const char* name) {
  OwnWork work;
  if (!work.entered()) return;
  remember_unhooked(name);
  if (Recording* r = present_recording()) record_unhooked(*r, name);
}

void library_closed() {
  OwnWork work;
  if (Recording* r = work.entered() ? present_recording() : nullptr) notice_unloaded_modules(r->interner);
}

}  // namespace vramtrack

// What do virtual memory's handles and mappings, and other processes' memory, mean to the recording? See events.h and counted_memory.h.
#include "interpose/call.h"
#include "interpose/events_internal.h"

namespace vramtrack {

using namespace format;

namespace {

// Of these kinds blocks are known by the number of their piece, not by an address.
CountedMemory& counted_memory(Recording& r, Kind kind) { return kind == Kind::kIpc ? r.opened : r.physical; }

void record_piece(Recording& r, const CountedMemoryReport& report, uint32_t piece) {
  SpaceKey space = driver_space(report.kind, report.device);
  if (report.is_foreign && report.device >= 0) space.memory = Memory::kImported;
  const Origin origin = driver_origin(r);
  record_allocation(r.recorder, {space, report.kind, piece, report.size, report.owner, Call::outermost().api, origin.stack.id,
                                 origin.thread});
  note_references(r.recorder, report.kind, piece, 1, 0);
}

// What nobody refers to any more is freed. Two threads may note their counts of one piece in the wrong order: they are evidence only.
void settle(Recording& r, Kind kind, const References& now) {
  if (!now.piece) return;
  if (now.references || now.mappings) {
    note_references(r.recorder, kind, now.piece, now.references, now.mappings);
    return;
  }
  if (const TakenBlock taken = take_piece(r.recorder, kind, now.piece); taken.block) give_up(r.recorder, taken, 0);
  forget_piece(counted_memory(r, kind), now.piece);
}

void unmap(Recording& r, uint32_t first) {
  for (uint32_t mapping = first; mapping;) {
    References now;
    mapping = give_up_mapping(r.physical, mapping, now);
    settle(r, Kind::kPhysical, now);
  }
}

}  // namespace

void counted_memory_made(const CountedMemoryReport& report) {
  OwnWork work;
  Recording* r = work.entered() && report.handle ? recording_for_event() : nullptr;
  if (!r) return;
  CountedMemory& shared = counted_memory(*r, report.kind);
  if (report.kind == Kind::kIpc) {  // opened again, it has the same address
    if (const References again = add_reference(shared, report.handle); again.piece) return settle(*r, report.kind, again);
  }
  settle(*r, report.kind, drop_handle(shared, report.handle));
  if (const uint32_t piece = add_piece(shared, report.handle, report.device, report.owner)) record_piece(*r, report, piece);
}

void physical_memory_retained(uint64_t address, uint64_t handle) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (r) settle(*r, Kind::kPhysical, add_reference_at(r->physical, address, handle));
}

void physical_memory_mapped(uint64_t address, uint64_t size, uint64_t handle) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (!r) return;
  unmap(*r, take_mappings(r->physical, address, size));  // whose end was not seen
  const References now = add_mapping(r->physical, address, size, handle);
  settle(*r, Kind::kPhysical, now);
  if (now.mappings == 1) note_size(r->recorder, Kind::kPhysical, now.piece, size);  // what was imported came without one
}

PendingRelease::PendingRelease(Kind kind, uint64_t handle) : kind_(kind), handle_(handle) {
  OwnWork work;
  Recording* r = work.entered() && handle ? present_recording() : nullptr;
  if (!r) return;
  notice_end_of_work(*r);
  piece_ = take_reference(counted_memory(*r, kind), handle);
}

void PendingRelease::finish(int result) {
  OwnWork work;
  Recording* r = work.entered() && piece_ ? present_recording() : nullptr;
  if (!r) return;
  CountedMemory& shared = counted_memory(*r, kind_);
  if (result == kSuccess) settle(*r, kind_, give_up_reference(shared, handle_, piece_));
  else put_back_reference(shared, handle_, piece_);
}

PendingUnmap::PendingUnmap(uint64_t address, uint64_t size) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (!r) return;
  notice_end_of_work(*r);
  first_ = take_mappings(r->physical, address, size);
}

void PendingUnmap::finish(int result) {
  OwnWork work;
  Recording* r = work.entered() && first_ ? present_recording() : nullptr;
  if (!r) return;
  result == kSuccess ? unmap(*r, first_) : put_back_mappings(r->physical, first_);
}

}  // namespace vramtrack

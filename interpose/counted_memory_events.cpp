// What do virtual memory's handles and mappings, and other processes' memory, mean to the recording? See events.h and counted_memory.h.
#include "interpose/call.h"
#include "interpose/events_internal.h"

namespace vramtrack {

using namespace format;

namespace {

// Of these kinds blocks are known by the number of their piece, not by an address. A handle that is released leads to one of the
// kind's store, whatever it is itself.
CountedMemory& counted_memory(Recording& r, Kind kind) {
  switch (kind) {
    case Kind::kIpc: return r.opened;
    case Kind::kUserObject: return r.user_objects;
    default: return r.physical;
  }
}

SpaceKey space_of(const CountedMemoryReport& report) {
  if (is_handle(report.kind)) return handle_space(report.device);
  SpaceKey space = driver_space(report.kind, report.device);
  if (report.is_foreign && report.device >= 0) space.memory = Memory::kImported;
  return space;
}

// Above all addresses. Parts of objects are told apart by 23 bits of a hash, and offsets have a tebibyte.
uint64_t address_of(const BoundPlace& place) { return 1ull << 63 | hash_mix(place.object, place.part) >> 41 << 40 | place.offset; }

void record_piece(Recording& r, const CountedMemoryReport& report, uint32_t piece) {
  const SpaceKey space = space_of(report);
  const Origin origin = driver_origin(r);
  record_allocation(r.recorder, {space, report.kind, piece, report.size, report.owner, Call::outermost().api, origin.stack.id,
                                 origin.thread});
  note_references(r.recorder, report.kind, piece, 1, 0);
}

void settle(Recording&, const References&);

void unmap(Recording& r, uint32_t first) {
  for (uint32_t mapping = first; mapping;) {
    References now;
    mapping = give_up_mapping(r.physical, mapping, now);
    settle(r, now);
  }
}

// What nobody refers to any more is freed. Two threads may note their counts of one piece in the wrong order: they are evidence only.
void settle(Recording& r, const References& now) {
  if (!now.piece) return;
  if (now.references || now.mappings) {
    note_references(r.recorder, now.kind, now.piece, now.references, now.mappings);
    return;
  }
  if (const TakenBlock taken = take_piece(r.recorder, now.kind, now.piece); taken.block) give_up(r.recorder, taken, 0);
  CountedMemory& shared = counted_memory(r, now.kind);
  if (now.kind == Kind::kMulticast) unmap(r, take_mappings_of(shared, handle_of_piece(shared, now.piece)));
  forget_piece(shared, now.piece);
}

void mapped(Recording& r, const References& now, uint64_t size) {
  settle(r, now);
  if (now.mappings == 1 && now.kind == Kind::kPhysical) note_size(r.recorder, now.kind, now.piece, size);  // what was imported came without one
}

}  // namespace

void counted_memory_made(const CountedMemoryReport& report) {
  OwnWork work;
  Recording* r = work.entered() && report.handle ? recording_for_event() : nullptr;
  if (!r) return;
  CountedMemory& shared = counted_memory(*r, report.kind);
  if (report.kind == Kind::kIpc) {  // opened again, it has the same address
    if (const References again = add_references(shared, report.handle); again.piece) return settle(*r, again);
  }
  settle(*r, drop_handle(shared, report.handle));
  if (const uint32_t piece = add_piece(shared, report.kind, report.handle, report.device, report.owner)) record_piece(*r, report, piece);
}

void physical_memory_retained(uint64_t address, uint64_t handle) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (r) settle(*r, add_reference_at(r->physical, address, handle));
}

void physical_memory_mapped(uint64_t address, uint64_t size, uint64_t handle) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (!r) return;
  unmap(*r, take_mappings(r->physical, address, size));  // whose end was not seen
  mapped(*r, add_mapping(r->physical, address, size, handle), size);
}

void physical_memory_bound(const BoundPlace& place, uint64_t size, uint64_t handle) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (!r) return;
  unmap(*r, take_mappings(r->physical, address_of(place), size));  // what was there before
  mapped(*r, add_mapping(r->physical, address_of(place), size, handle, place.object), size);
}

void physical_memory_at_bound(const BoundPlace& place, uint64_t size, uint64_t address) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (r) mapped(*r, add_mapping_of(r->physical, address_of(place), size, address, place.object), size);
}

void physical_memory_unbound(const BoundPlace& place, uint64_t size) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (r) unmap(*r, take_mappings(r->physical, address_of(place), size));
}

void bound_object_gone(uint64_t object) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (r) unmap(*r, take_mappings_of(r->physical, object));
}

void user_object_retained(uint64_t handle, uint32_t count) {
  OwnWork work;
  Recording* r = work.entered() && count ? present_recording() : nullptr;
  if (r) settle(*r, add_references(r->user_objects, handle, count));
}

void user_object_released(uint64_t handle, uint32_t count) {
  OwnWork work;
  Recording* r = work.entered() && count ? present_recording() : nullptr;
  if (!r) return;
  notice_end_of_work(*r);
  settle(*r, drop_references(r->user_objects, handle, count));
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
  if (result == kSuccess) settle(*r, give_up_reference(shared, handle_, piece_));
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

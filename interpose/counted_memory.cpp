// Who refers to a piece of memory that several handles and mappings share? See counted_memory.h.
#include "interpose/counted_memory.h"

#include <initializer_list>

namespace vramtrack {
namespace {

void set(BlockIndex& index, uint64_t key, uint32_t id) {
  index.erase(key);
  index.insert(key, id);
}

// Its number is free for another; none of its names may lead there.
void free_piece(CountedMemory& shared, uint32_t id) {
  const MemoryPiece& gone = shared.pieces[id];
  for (const uint64_t name : {gone.handle, gone.other_handle})
    if (name && shared.handles.find(name) == id) shared.handles.erase(name);
  shared.pieces.give_back(id);
}

References references_of(const CountedMemory& shared, uint32_t piece) {
  if (!piece) return {};
  return {piece, shared.pieces[piece].kind, shared.pieces[piece].references, shared.pieces[piece].mappings};
}

uint32_t mapping_around(const CountedMemory& shared, uint64_t address) {
  for (uint32_t i = 1; i <= shared.mappings.used(); i++) {
    const MemoryMapping& mapping = shared.mappings[i];
    if (mapping.piece && address - mapping.address < mapping.size) return i;
  }
  return 0;
}

References map_piece(CountedMemory& shared, uint64_t address, uint64_t size, uint32_t piece, uint64_t object) {
  const uint32_t id = piece ? shared.mappings.take() : 0;
  if (!id) return {};
  shared.mappings[id] = {address, size, object, piece, 0};
  shared.bound += object != 0;
  set(shared.mapped, address, id);
  shared.pieces[piece].mappings++;
  return references_of(shared, piece);
}

}  // namespace

References drop_handle(CountedMemory& shared, uint64_t handle) {
  Locked hold(shared.lock);
  const uint32_t id = shared.handles.find(handle);
  if (!id) return {};
  shared.handles.erase(handle);
  if (shared.pieces[id].other_handle) return {};
  shared.pieces[id].references = 0;
  return references_of(shared, id);
}

uint32_t add_piece(CountedMemory& shared, format::Kind kind, uint64_t handle, int device, uint64_t owner) {
  Locked hold(shared.lock);
  const uint32_t id = shared.pieces.take();
  if (!id) return 0;
  shared.pieces[id] = {kind, handle, 0, owner, device, 1, 0, 0};
  set(shared.handles, handle, id);
  return id;
}

References add_references(CountedMemory& shared, uint64_t handle, uint32_t count) {
  Locked hold(shared.lock);
  const uint32_t id = shared.handles.find(handle);
  if (id) shared.pieces[id].references += count;
  return references_of(shared, id);
}

References drop_references(CountedMemory& shared, uint64_t handle, uint32_t count) {
  Locked hold(shared.lock);
  const uint32_t id = shared.handles.find(handle);
  if (!id) return {};
  uint32_t& references = shared.pieces[id].references;
  references -= count < references ? count : references;
  if (!references) shared.handles.erase(handle);
  return references_of(shared, id);
}

References add_reference_at(CountedMemory& shared, uint64_t address, uint64_t handle) {
  Locked hold(shared.lock);
  const uint32_t mapping = mapping_around(shared, address);
  if (!mapping) return {};
  const uint32_t id = shared.mappings[mapping].piece;
  MemoryPiece& piece = shared.pieces[id];
  if (shared.handles.find(handle) != id) {
    if (piece.other_handle) return {};
    if (handle != piece.handle) piece.other_handle = handle;
    set(shared.handles, handle, id);
  }
  piece.references++;
  return references_of(shared, id);
}

References add_mapping(CountedMemory& shared, uint64_t address, uint64_t size, uint64_t handle, uint64_t object) {
  Locked hold(shared.lock);
  return map_piece(shared, address, size, shared.handles.find(handle), object);
}

References add_mapping_of(CountedMemory& shared, uint64_t address, uint64_t size, uint64_t known_address, uint64_t object) {
  Locked hold(shared.lock);
  const uint32_t known = mapping_around(shared, known_address);
  return map_piece(shared, address, size, known ? shared.mappings[known].piece : 0, object);
}

uint32_t take_reference(CountedMemory& shared, uint64_t handle) {
  Locked hold(shared.lock);
  const uint32_t id = shared.handles.find(handle);
  if (id && shared.pieces[id].references == 1) shared.handles.erase(handle);
  return id;
}

void put_back_reference(CountedMemory& shared, uint64_t handle, uint32_t piece) {
  Locked hold(shared.lock);
  if (!shared.handles.find(handle)) shared.handles.insert(handle, piece);
}

References give_up_reference(CountedMemory& shared, uint64_t handle, uint32_t piece) {
  Locked hold(shared.lock);
  if (!shared.pieces[piece].references) return {};
  if (--shared.pieces[piece].references == 0 && shared.handles.find(handle) == piece) shared.handles.erase(handle);
  return references_of(shared, piece);
}

uint32_t take_mappings(CountedMemory& shared, uint64_t address, uint64_t size) {
  Locked hold(shared.lock);
  uint32_t first = 0, last = 0;
  for (uint64_t at = address; at - address < size;) {
    const uint32_t id = shared.mapped.find(at);
    if (!id) break;
    shared.mapped.erase(at);
    shared.mappings[id].next = 0;
    (last ? shared.mappings[last].next : first) = id;
    last = id;
    at += shared.mappings[id].size;
  }
  return first;
}

uint32_t take_mappings_of(CountedMemory& shared, uint64_t object) {
  Locked hold(shared.lock);
  uint32_t first = 0;
  for (uint32_t id = 1; shared.bound && id <= shared.mappings.used(); id++) {
    MemoryMapping& mapping = shared.mappings[id];
    if (!mapping.piece || mapping.object != object || shared.mapped.find(mapping.address) != id) continue;
    shared.mapped.erase(mapping.address);
    mapping.next = first;
    first = id;
  }
  return first;
}

void put_back_mappings(CountedMemory& shared, uint32_t first) {
  Locked hold(shared.lock);
  for (uint32_t id = first; id; id = shared.mappings[id].next) set(shared.mapped, shared.mappings[id].address, id);
}

uint32_t give_up_mapping(CountedMemory& shared, uint32_t first, References& of) {
  Locked hold(shared.lock);
  const uint32_t next = shared.mappings[first].next, piece = shared.mappings[first].piece;
  if (shared.pieces[piece].mappings) shared.pieces[piece].mappings--;
  shared.bound -= shared.mappings[first].object != 0;
  of = references_of(shared, piece);
  shared.mappings.give_back(first);
  return next;
}

bool is_known_handle(CountedMemory& shared, uint64_t handle) {
  Locked hold(shared.lock);
  return shared.handles.find(handle) != 0;
}

void forget_pieces_of(CountedMemory& shared, int device, uint64_t context) {
  Locked hold(shared.lock);
  for (uint32_t id = 1; id <= shared.pieces.used(); id++) {
    const MemoryPiece& piece = shared.pieces[id];
    const bool is_of_it = context ? piece.owner == context : piece.device == device;
    if (piece.references && piece.owner && is_of_it) free_piece(shared, id);
  }
}

uint64_t handle_of_piece(CountedMemory& shared, uint32_t piece) {
  Locked hold(shared.lock);
  return shared.pieces[piece].handle;
}

void forget_piece(CountedMemory& shared, uint32_t piece) {
  Locked hold(shared.lock);
  if (!shared.pieces[piece].references && !shared.pieces[piece].mappings) free_piece(shared, piece);
}

}  // namespace vramtrack

// Who refers to a piece of memory that several handles and mappings share?
//
// Virtual memory management has three objects: a range of addresses (no memory), physical memory behind counted handles, and mappings
// of it into ranges. Physical memory lives until no handle and no mapping refers to it. Memory of another process that is opened has
// a counted address and no mappings: the same bookkeeping. The bytes are the recorder's; here are the references alone.
//
// Multicast objects are named by handles of the same kind and counted with physical memory; user objects are counted apart.
//
// A reference that is about to go is taken first, so that another thread may be given its handle or address meanwhile, and is put back
// if the driver refuses. Thread-safety: everything may be called from any thread. Bounded: beyond kMaxPieces, new ones are not followed.
#pragma once

#include <cstdint>

#include "interpose/block_index.h"
#include "interpose/capture_format.h"
#include "interpose/lock.h"
#include "interpose/record_pool.h"

namespace vramtrack {

inline constexpr uint32_t kMaxPieces = 1 << 20;  // and as many mappings

struct MemoryPiece {
  format::Kind kind;
  uint64_t handle;
  uint64_t other_handle;  // a second name, where a retain answered one; 0 = none. Further ones are not followed
  uint64_t owner;  // context; 0 = it outlives contexts
  int device;
  uint32_t references, mappings;
  uint32_t next;  // of the free ones
};

struct MemoryMapping {
  uint64_t address, size;
  uint64_t object;  // that it is bound to, in place of an address; 0 = to none
  uint32_t piece;
  uint32_t next;  // of those taken together, or of the free ones
};

struct CountedMemory {
  Lock lock;
  RecordPool<MemoryPiece, kMaxPieces> pieces;
  RecordPool<MemoryMapping, kMaxPieces> mappings;
  BlockIndex handles;  // handle -> piece
  BlockIndex mapped;   // first address -> mapping
  uint32_t bound;      // mappings that are bound to an object
};

// How often a piece is referred to now. `piece` 0: it is not known.
struct References {
  uint32_t piece;
  format::Kind kind;
  uint32_t references, mappings;
};

// A handle that is given out anew: of the piece it named before, no release was seen, or a second name is still in use.
References drop_handle(CountedMemory&, uint64_t handle);

// A piece made, or opened, with one reference by `handle`. Its number, or 0: no room.
uint32_t add_piece(CountedMemory&, format::Kind, uint64_t handle, int device = 0, uint64_t owner = 0);
// The piece is one that was made before: so many references more.
References add_references(CountedMemory&, uint64_t handle, uint32_t count = 1);
References drop_references(CountedMemory&, uint64_t handle, uint32_t count);
// The same where `handle` was answered for an address inside a mapping; it may be a new name.
References add_reference_at(CountedMemory&, uint64_t address, uint64_t handle);
References add_mapping(CountedMemory&, uint64_t address, uint64_t size, uint64_t handle, uint64_t object = 0);
// Mapped once more, where what is mapped at `known_address` is.
References add_mapping_of(CountedMemory&, uint64_t address, uint64_t size, uint64_t known_address, uint64_t object);

// A reference by handle on its way to being released.
uint32_t take_reference(CountedMemory&, uint64_t handle);
void put_back_reference(CountedMemory&, uint64_t handle, uint32_t piece);
References give_up_reference(CountedMemory&, uint64_t handle, uint32_t piece);

// The mappings that fill a range from its begin on, on their way to being unmapped: the first of a list.
uint32_t take_mappings(CountedMemory&, uint64_t address, uint64_t size);
// All that is bound to an object which is gone. Takes time only if something is bound to any.
uint32_t take_mappings_of(CountedMemory&, uint64_t object);
void put_back_mappings(CountedMemory&, uint32_t first);
// Gives the first one up and answers the next, 0 after the last.
uint32_t give_up_mapping(CountedMemory&, uint32_t first, References& of);

bool is_known_handle(CountedMemory&, uint64_t handle);

// When nothing refers to it any more.
void forget_piece(CountedMemory&, uint32_t piece);

uint64_t handle_of_piece(CountedMemory&, uint32_t piece);

// Those of a context that is gone, or (context 0) of a device that was reset.
void forget_pieces_of(CountedMemory&, int device, uint64_t context);

}  // namespace vramtrack

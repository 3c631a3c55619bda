// The live table: blocks, the sites that made them, the spaces they lie in. Knows no CUDA, no stack and no file.
//
// Two truths kept for every space and site at every event, so that nothing has to be replayed or scanned later:
//   the composition at the peak (Site::peak_number) and the growth curve (Curve). See capture_format.h.
//
// Thread-safety: everything may be called from any thread. One lock per domain: the driver's spaces share one, since a free
// names an address and not a device, and so do handles; each of PyTorch's spaces has its own, as its allocator has one lock per device.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/block_index.h"
#include "interpose/capture_file.h"
#include "interpose/hash_index.h"
#include "interpose/lock.h"

namespace vramtrack {

struct Interner;

struct SpaceKey {
  format::Layer layer;
  format::Memory memory;
  int device;  // -1 = host
  bool operator==(const SpaceKey&) const = default;
};

struct Allocation {
  SpaceKey space;
  format::Kind kind;
  uint64_t address, size, owner;  // of a handle: the handle, 1
  const char* api;  // static storage; null for a framework's block
  uint32_t stack;
  uint32_t thread;
  uint64_t driver_ns = 0;  // the call took; 0 = not timed
  uint64_t reserved = 0;  // what the layer holds for the space by now, used or not; 0 = not told
  uint16_t stream = 0;    // see format::Block
};

// A block whose free the driver decides on: its address is given away already, its bytes still count. Zero `block`: the address
// was not known.
struct TakenBlock {
  format::Layer layer = format::Layer::kNone;
  format::Kind kind = format::Kind::kNone;
  uint32_t block = 0;
  uint64_t serial = 0;
  uint64_t owner = 0, size = 0;
};

struct IncidentReport {
  format::IncidentKind kind;
  format::FreeFault fault = format::FreeFault::kNone;
  SpaceKey space = {};
  uint32_t stack = 0;
  const char* api = nullptr;
  uint32_t name = 0;  // string
  int detail = 0;
  uint32_t other_site = 0;
  uint64_t address = 0, size = 0;
  uint64_t reserved_bytes = 0;
};

struct Recorder {
  // Blocks and sites under one lock.
  struct Domain {
    Lock lock;
    BlockIndex blocks;
    HashIndex sites;
    uint32_t free_block;                 // head of the list of free records
    uint32_t fresh_begin, fresh_end;     // records never used yet
  };
  struct SpaceState {
    SpaceKey key;
    uint32_t record;
    Domain* domain;
  };
  // What was freed last at the driver, to tell a double free from a foreign pointer.
  struct RecentFree {
    uint64_t address, size;
    uint32_t site;
    bool with_context;  // its context took it along
  };
  static constexpr uint32_t kMaxSpaces = 64;
  static constexpr uint32_t kRecentFrees = 4096;

  CaptureFile* file;
  Interner* interner;
  Lock spaces_lock;
  std::atomic<uint32_t> space_count;
  SpaceState spaces[kMaxSpaces];
  Domain driver;
  Domain handles;
  Domain torch[kMaxSpaces];
  RecentFree recent[kRecentFrees];  // under driver.lock
  Lock incidents_lock;
  HashIndex incidents;
  uint32_t last_scan_ms;            // of the sites, for an incident
  std::atomic<bool> ended_early;    // work was taken to have ended, and went on
  std::atomic<bool> exits;          // its end is the process's
};

void record_allocation(Recorder&, const Allocation&);

// A free that has already happened. `reserved` as in Allocation.
void record_free(Recorder&, const SpaceKey&, uint64_t address, uint64_t reserved = 0);

// A free at the driver that is yet to happen: exactly one of the two follows. `kinds`: a bit per format::Kind that may be freed so.
TakenBlock take_block(Recorder&, uint64_t address, uint64_t kinds);
bool has_handle(Recorder&, uint64_t handle, format::Kind);
TakenBlock take_handle(Recorder&, uint64_t handle, format::Kind);
TakenBlock take_piece(Recorder&, format::Kind, uint32_t piece);  // of counted memory
void put_back(Recorder&, const TakenBlock&);
void give_up(Recorder&, const TakenBlock&, uint64_t driver_ns);

// What keeps a piece of counted memory by now.
void note_references(Recorder&, format::Kind, uint32_t piece, uint32_t references, uint32_t mappings);

// The size of a piece that was recorded without one.
void note_size(Recorder&, format::Kind, uint32_t piece, uint64_t size);

// The driver's live block at `address`, or the one freed there last. Zero `site`: neither is known.
struct AddressHistory {
  SpaceKey space;
  uint32_t site;
  uint64_t size;
  format::Kind kind;
  bool live;
  bool went_with_context;
};
AddressHistory history_of(Recorder&, uint64_t address);

// Frees the driver's blocks and the handles that a context takes with it (see driver_context_gone): how many bytes of memory, and
// where the first of them lay.
struct DroppedBlocks {
  SpaceKey space;
  uint64_t bytes;
};
DroppedBlocks drop_context(Recorder&, int device, uint64_t context);

void record_incident(Recorder&, const IncidentReport&);
bool space_has_name(Recorder&, const SpaceKey&);
void name_space(Recorder&, const SpaceKey&, uint32_t name, uint64_t total_bytes, const char* uuid);  // 16 bytes

// A step begins.
void record_step(Recorder&, format::StepSource);

// The program's work is over: from now on frees are its teardown. They are noted, but survivors stay in the table.
enum class WorkEnd {
  kInterpreterFinalizes,  // Python's; the process may yet go on without it, see resume_if_it_goes_on()
  kPythonProcessExits,    // in both, tensors freed since the last allocation were part of it already: the variables of main()
  kProcessExits,
};
void record_work_ended(Recorder&, WorkEnd);

}  // namespace vramtrack

// What does an allocation or a free change in the table of the living? See recorder.h.
#include "interpose/recorder.h"

#include <bit>

#include "interpose/history.h"
#include "interpose/interner.h"
#include "interpose/recorder_internal.h"

namespace vramtrack {
namespace {

using namespace format;

constexpr uint32_t kBlockBatch = 64;      // records taken from the table at once
constexpr uint32_t kMaxSites = 1 << 20;   // beyond it, one overflow site per space and kind

// --- sites --------------------------------------------------------------------------------------------------------------

uint64_t site_key(const Allocation& a, uint32_t space) {
  return hash_mix(uint64_t{a.stack} << 32 | space << 8 | static_cast<uint32_t>(a.kind), reinterpret_cast<uintptr_t>(a.api));
}

uint32_t make_site(Recorder& r, const Allocation& a, uint32_t space, bool overflow, const Moment& at) {
  Site site = {};
  site.stack = a.stack;
  site.api = a.api ? intern_string(*r.interner, a.api) : 0;
  site.space = static_cast<uint16_t>(space);
  site.kind = a.kind;
  site.overflow = overflow;
  site.first_time_ms = at.time_ms;
  site.first_step = at.step;
  site.size_min = UINT64_MAX;
  const uint32_t id = append(*r.file, kSites, &site);
  if (!id) return 0;
  Curve curve = {};
  curve.site = id;
  site_record(r, id).curve = append(*r.file, kCurves, &curve);
  return id;
}

uint32_t site_of(Recorder& r, Recorder::Domain& domain, const Allocation& a, uint32_t space, const Moment& at) {
  const uint64_t key = site_key(a, space);
  if (const uint32_t id = domain.sites.find(key)) return id;
  const bool overflow = r.file->header->tables[kSites].count.load(std::memory_order_relaxed) >= kMaxSites;
  if (overflow && a.stack) {
    Allocation nameless = a;
    nameless.stack = 0;
    nameless.api = nullptr;
    return site_of(r, domain, nameless, space, at);
  }
  const uint32_t id = make_site(r, a, space, overflow, at);
  if (id) domain.sites.insert(key, id);
  return id;
}

// The three notes below are called before a site's live bytes change. What they were is what they were at the peak.
void note_peak(Site& site, const Space& space) {
  if (site.peak_number != space.peak_number) {
    site.peak_number = space.peak_number;
    site.saved_peak_bytes = site.live_bytes;
    site.saved_peak_blocks = site.live_blocks;
  }
}

// What they were is what they were in the windows gone by.
void note_windows(Recorder& r, const Site& site, Space& space, const Moment& at) {
  if (!site.curve || at.work_ended) return;
  advance_clock(space, at.clock, at.iterations);
  advance(record<Curve>(*r.file, kCurves, site.curve), space, site.live_bytes);
}

// The number under which a free is noted, see Header::end_number.
uint64_t end_number(const Space& space, const Moment& at) {
  return at.work_ended && space.layer != Layer::kPytorch ? at.end_number | kAfterWork : at.end_number;
}

// What they were is what they were when the work ended, should this free turn out to be part of the end: one of those that nothing
// is allocated after, by the whole process. Saved once for all of these; true for the first of them.
bool note_end(Site& site, uint64_t end_number) {
  if (site.end_number == end_number) return false;
  site.end_number = end_number;
  site.end_bytes = site.live_bytes;
  site.end_blocks = site.live_blocks;
  return true;
}

void add_live_bytes(Site& site, Space& space, uint64_t size, const Moment& at) {
  site.live_bytes += size;
  space.live_bytes += size;
  if (site.kind == Kind::kManaged) space.managed_bytes += size;
  if (site.live_bytes > site.max_live_bytes) site.max_live_bytes = site.live_bytes;
  if (space.live_bytes > space.peak_bytes) {
    space.peak_bytes = space.live_bytes;
    space.peak_number++;
    space.peak_time_ms = at.time_ms;
    space.peak_step = at.step;
  }
}

void add_live(Site& site, Space& space, uint64_t size, const Moment& at) {
  site.live_blocks++;
  space.live_blocks++;
  if (site.live_blocks > site.max_live_blocks) {
    site.max_live_blocks = site.live_blocks;
    if (site.live_blocks > site.level_blocks + site.level_blocks / 8) {
      site.level_blocks = site.live_blocks;
      site.level_allocations = site.allocations;
    }
  }
  add_live_bytes(site, space, size, at);
}

void note_reserved(Space& space, uint64_t bytes) {
  if (bytes) space.reserved_bytes = bytes;
}

void remove_live(Site& site, Space& space, uint64_t size) {
  site.live_bytes -= size;
  site.live_blocks--;
  space.live_bytes -= size;
  space.live_blocks--;
  if (site.kind == Kind::kManaged) space.managed_bytes -= size;
}

void count_allocation(Site& site, uint64_t size, uint64_t serial, const Moment& at) {
  if (site.allocations == 0) site.first_serial = serial;
  else if (size != site.size_last) site.size_changes++;
  if (site.live_blocks) site.allocs_over_live++;
  if (size > site.size_max) {
    site.new_max_sizes++;
    site.size_max = size;
  }
  if (size < site.size_min) site.size_min = size;
  site.size_last = size;
  site.allocations++;
  site.allocated_bytes += size;
  site.last_serial = serial;
  site.last_time_ms = at.time_ms;
  site.last_step = at.step;
}

void count_free(Site& site, const Block& block, const Moment& at) {
  site.frees++;
  const uint32_t steps = at.step - block.step;
  const uint32_t bucket = steps == 0 ? 0 : 32 - static_cast<uint32_t>(std::countl_zero(steps));
  site.lifetime_steps[bucket < kLifetimeBuckets ? bucket : kLifetimeBuckets - 1]++;
}

// --- blocks -------------------------------------------------------------------------------------------------------------

uint32_t new_block(Recorder& r, Recorder::Domain& domain, bool work_ended) {
  if (const uint32_t id = work_ended ? 0 : domain.free_block) {  // in the end a free record may be a survivor's
    domain.free_block = block_record(r, id).next_free;
    return id;
  }
  if (domain.fresh_begin == domain.fresh_end) {
    const uint32_t first = append_empty(*r.file, kBlocks, kBlockBatch);
    if (!first) return 0;
    domain.fresh_begin = first;
    domain.fresh_end = first + kBlockBatch;
  }
  return domain.fresh_begin++;
}

void recycle_block(Recorder& r, Recorder::Domain& domain, uint32_t id) {
  block_record(r, id).next_free = domain.free_block;  // not in a field that says something: readers look at freed records
  domain.free_block = id;
}

void write_block(Block& block, const Allocation& a, uint32_t site, uint64_t serial, const Moment& at) {
  block.serial.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // the 0 is seen before what follows: pairs with the reader's second look
  block.address = a.address;
  block.size = a.size;
  block.owner = a.owner;
  block.site = site;
  block.thread = a.thread;
  block.time_ms = at.time_ms;
  block.step = at.step;
  block.stream = a.stream;
  block.mappings = 0;
  block.serial.store(serial, std::memory_order_release);  // pairs with the reader's first look
}

// A live block is gone for good: its bytes leave its site and space, and its record may be used again, but for survivors of the
// program's work. The index is left to the caller: the address may be another block's by now.
void drop_block(Recorder& r, Recorder::Domain& domain, uint32_t id, const Moment& at) {
  Block& block = block_record(r, id);
  Site& site = site_record(r, block.site);
  Space& space = space_record(r, site.space);
  note_peak(site, space);
  const bool is_first_of_these = note_end(site, end_number(space, at));
  if (is_first_of_these) note_windows(r, site, space, at);  // the others may be the end, which is no fall of the run
  count_free(site, block, at);
  remove_live(site, space, block.size);
  space.frees++;
  note_series(space, space.allocations + space.frees - 1, at.time_ms, at.step);
  block.end_number = at.end_number | (at.work_ended ? kAfterWork : 0);
  const uint64_t serial = block.serial.load(std::memory_order_relaxed);
  block.serial.store(serial | kFreed, std::memory_order_release);  // pairs with the reader's first look
  if (!at.work_ended) recycle_block(r, domain, id);
}

// What a block is indexed by. Those known by a number or a handle are apart from addresses and from each other.
uint64_t index_key(Kind kind, uint64_t address) {
  return kind < Kind::kPhysical ? address : address ^ static_cast<uint64_t>(kind) << 56;
}

uint64_t index_key_of(const Recorder& r, uint32_t id) {
  const Block& block = record<Block>(*r.file, kBlocks, id);
  return index_key(record<Site>(*r.file, kSites, block.site).kind, block.address);
}

void erase_and_drop(Recorder& r, Recorder::Domain& domain, uint64_t key, uint32_t id, const Moment& at) {
  domain.blocks.erase(key);
  drop_block(r, domain, id, at);
}

SpaceKey key_of(const Space& space) { return {space.layer, space.memory, space.device}; }

bool stopped(Recorder& r) {
  if (!r.file->stopped.load(std::memory_order_relaxed)) return false;
  r.file->header->lost_events.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void lose_event(Recorder& r) { r.file->header->lost_events.fetch_add(1, std::memory_order_relaxed); }

bool dies_with_context(const Site& site, const Space& space, const Block& block, int device, uint64_t context) {
  switch (site.kind) {
    case Kind::kStreamOrdered: case Kind::kGraphMemory: case Kind::kMemoryPool: case Kind::kPhysical: return false;
    case Kind::kGraph: case Kind::kGraphExec: case Kind::kLibrary: case Kind::kMulticast: case Kind::kUserObject:
    case Kind::kAddressRange: return false;
    default: break;
  }
  const bool on_device = space.memory != Memory::kPinnedHost && space.memory != Memory::kCpu;
  return context ? block.owner == context : on_device && space.device == device;
}

}  // namespace

void record_allocation(Recorder& r, const Allocation& a) {
  if (stopped(r)) return;
  if (r.file->header->work_ended_serial) [[unlikely]] resume_if_it_goes_on(r);
  Recorder::SpaceState* state = space_of(r, a.space);
  if (!state) return lose_event(r);
  const Moment at = now(r);
  Recorder::Domain& domain = *state->domain;
  Locked hold(domain.lock);
  const uint64_t key = index_key(a.kind, a.address);
  if (const uint32_t stale = domain.blocks.find(key)) erase_and_drop(r, domain, key, stale, at);  // its free was not seen
  const uint32_t site_id = site_of(r, domain, a, state->record, at);
  const uint32_t block_id = site_id ? new_block(r, domain, at.work_ended) : 0;
  if (!block_id) return lose_event(r);
  if (!domain.blocks.insert(key, block_id)) {
    recycle_block(r, domain, block_id);
    return lose_event(r);
  }

  Site& site = site_record(r, site_id);
  Space& space = space_record(r, state->record);
  const uint64_t serial = r.file->header->serial.fetch_add(1, std::memory_order_relaxed) + 1;
  write_block(block_record(r, block_id), a, site_id, serial, at);
  note_peak(site, space);
  note_windows(r, site, space, at);
  if (at.work_ended) note_end(site, end_number(space, at));
  count_allocation(site, a.size, serial, at);
  if (a.driver_ns) site.driver_ns += a.driver_ns;
  add_live(site, space, a.size, at);
  space.allocations++;
  note_reserved(space, a.reserved);
  note_series(space, space.allocations + space.frees - 1, at.time_ms, at.step);
}

void record_free(Recorder& r, const SpaceKey& key, uint64_t address, uint64_t reserved) {
  if (stopped(r)) return;
  Recorder::SpaceState* state = find_space(r, key);
  const Moment at = now(r);
  if (state) {
    Locked hold(state->domain->lock);
    note_reserved(space_record(r, state->record), reserved);
    if (const uint32_t id = state->domain->blocks.find(address)) return erase_and_drop(r, *state->domain, address, id, at);
  }
  r.file->header->unknown_frees.fetch_add(1, std::memory_order_relaxed);
}

namespace {

// Of memory that is known by its address.
void remember_free(Recorder& r, Kind kind, const Block& block, bool with_context) {
  if (kind < Kind::kPhysical) r.recent[hash_mix(0, block.address) % Recorder::kRecentFrees] = {block.address, block.size, block.site, with_context};
}

Layer layer_of(Kind kind) { return is_handle(kind) ? Layer::kHandles : Layer::kDriver; }

// The address leaves the index before the driver is asked, which may give it to another thread at once; everything else waits
// for the answer, so that a refused free leaves no trace.
TakenBlock take(Recorder& r, Layer layer, uint64_t key, uint64_t kinds) {
  if (stopped(r)) return {};
  Recorder::Domain& domain = domain_of(r, layer);
  Locked hold(domain.lock);
  const uint32_t id = domain.blocks.find(key);
  if (!id) return {};
  const Block& block = block_record(r, id);
  const Kind kind = site_record(r, block.site).kind;
  if (!(kinds >> static_cast<uint32_t>(kind) & 1)) return {};
  domain.blocks.erase(key);
  return {layer, kind, id, block.serial.load(std::memory_order_relaxed), block.owner, block.size};
}

// False: its context went meanwhile, and took it along.
bool still_there(const Recorder& r, const TakenBlock& taken) {
  const Block& block = record<Block>(*r.file, kBlocks, taken.block);
  return block.serial.load(std::memory_order_relaxed) == taken.serial;
}

}  // namespace

TakenBlock take_block(Recorder& r, uint64_t address, uint64_t kinds) { return take(r, Layer::kDriver, address, kinds); }

bool has_handle(Recorder& r, uint64_t handle, Kind kind) {
  Locked hold(r.handles.lock);
  return r.handles.blocks.find(index_key(kind, handle)) != 0;
}

TakenBlock take_handle(Recorder& r, uint64_t handle, Kind kind) {
  return take(r, Layer::kHandles, index_key(kind, handle), 1ull << static_cast<uint32_t>(kind));
}

TakenBlock take_piece(Recorder& r, Kind kind, uint32_t piece) {
  return take(r, layer_of(kind), index_key(kind, piece), 1ull << static_cast<uint32_t>(kind));
}

void note_references(Recorder& r, Kind kind, uint32_t piece, uint32_t references, uint32_t mappings) {
  constexpr uint32_t kMost = UINT16_MAX;
  Recorder::Domain& domain = domain_of(r, layer_of(kind));
  Locked hold(domain.lock);
  const uint32_t id = domain.blocks.find(index_key(kind, piece));
  if (!id) return;
  Block& block = block_record(r, id);
  block.references = static_cast<uint16_t>(references < kMost ? references : kMost);
  block.mappings = static_cast<uint16_t>(mappings < kMost ? mappings : kMost);
}

void note_size(Recorder& r, Kind kind, uint32_t piece, uint64_t size) {
  const Moment at = now(r);
  Locked hold(r.driver.lock);
  const uint32_t id = r.driver.blocks.find(index_key(kind, piece));
  if (!id || block_record(r, id).size) return;
  Block& block = block_record(r, id);
  Site& site = site_record(r, block.site);
  Space& space = space_record(r, site.space);
  note_peak(site, space);
  note_windows(r, site, space, at);
  block.size = size;
  site.allocated_bytes += size;
  if (size > site.size_max) site.size_max = size;
  add_live_bytes(site, space, size, at);
  note_series(space, space.allocations + space.frees - 1, at.time_ms, at.step);
}

void put_back(Recorder& r, const TakenBlock& taken) {
  Recorder::Domain& domain = domain_of(r, taken.layer);
  Locked hold(domain.lock);
  if (!still_there(r, taken)) return;
  const uint64_t key = index_key_of(r, taken.block);
  if (domain.blocks.find(key) || !domain.blocks.insert(key, taken.block)) lose_event(r);
}

void give_up(Recorder& r, const TakenBlock& taken, uint64_t driver_ns) {
  const Moment at = now(r);
  Recorder::Domain& domain = domain_of(r, taken.layer);
  Locked hold(domain.lock);
  if (!still_there(r, taken)) return;
  const Block& block = block_record(r, taken.block);
  if (taken.layer == Layer::kDriver) remember_free(r, taken.kind, block, false);
  site_record(r, block.site).driver_ns += driver_ns;
  drop_block(r, domain, taken.block, at);
}

AddressHistory history_of(Recorder& r, uint64_t address) {
  Locked hold(r.driver.lock);
  const auto history = [&](uint32_t site, uint64_t size, bool live, bool went_with_context) {
    const Site& made = site_record(r, site);
    return AddressHistory{key_of(space_record(r, made.space)), site, size, made.kind, live, went_with_context};
  };
  if (const uint32_t id = r.driver.blocks.find(address)) return history(block_record(r, id).site, block_record(r, id).size, true, false);
  const Recorder::RecentFree& recent = r.recent[hash_mix(0, address) % Recorder::kRecentFrees];
  return recent.site && recent.address == address ? history(recent.site, recent.size, false, recent.with_context) : AddressHistory{};
}

namespace {

// Goes through all blocks, those of other domains included, which other threads may free meanwhile: a record stays in its domain for
// ever, and its site is one of that domain whether it is free or not.
void drop_of_layer(Recorder& r, Layer layer, int device, uint64_t context, DroppedBlocks& dropped) {
  const Moment at = now(r);
  Recorder::Domain& domain = domain_of(r, layer);
  Locked hold(domain.lock);
  const uint64_t count = r.file->header->tables[kBlocks].count.load(std::memory_order_relaxed);
  for (uint32_t id = 1; id < count; id++) {
    const Block& block = block_record(r, id);
    const uint64_t serial = block.serial.load(std::memory_order_relaxed);
    if (!serial || serial & kFreed) continue;
    const Site& site = site_record(r, block.site);
    const Space& space = space_record(r, site.space);
    if (space.layer != layer || !dies_with_context(site, space, block, device, context)) continue;
    if (layer == Layer::kDriver) {
      if (!dropped.bytes) dropped.space = key_of(space);
      dropped.bytes += block.size;
      remember_free(r, site.kind, block, true);
    }
    const uint64_t key = index_key_of(r, id);
    if (domain.blocks.find(key) == id) domain.blocks.erase(key);
    drop_block(r, domain, id, at);
  }
}

}  // namespace

DroppedBlocks drop_context(Recorder& r, int device, uint64_t context) {
  DroppedBlocks dropped = {};
  if (stopped(r)) return dropped;
  drop_of_layer(r, Layer::kDriver, device, context, dropped);
  drop_of_layer(r, Layer::kHandles, device, context, dropped);
  return dropped;
}

}  // namespace vramtrack

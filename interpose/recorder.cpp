#include "interpose/recorder.h"

#include <bit>
#include <ctime>

#include "interpose/history.h"
#include "interpose/interner.h"

namespace vramtrack {
namespace {

using namespace format;

constexpr uint32_t kBlockBatch = 64;      // records taken from the table at once
constexpr uint32_t kMaxSites = 1 << 20;   // beyond it, one overflow site per space and kind

// --- when ---------------------------------------------------------------------------------------------------------------

struct Moment {
  uint32_t time_ms, step;
  bool by_step, work_ended;
};

Moment now(const Recorder& r) {
  Header& header = *r.file->header;
  timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);  // enough for births, and a fifth of the fine clock's cost
  const uint64_t ns = t.tv_sec * 1000000000ull + t.tv_nsec;
  const uint64_t start = header.start_monotonic_ns;
  const auto ms = static_cast<uint32_t>(ns > start ? (ns - start) / 1000000 : 0);
  if (header.last_time_ms.load(std::memory_order_relaxed) != ms) header.last_time_ms.store(ms, std::memory_order_relaxed);
  const uint32_t steps = header.steps.load(std::memory_order_relaxed);
  return {ms, steps, steps != 0, header.work_ended_serial != 0};
}

// Windows of a curve: steps from the first one, or allocations of the space.
uint64_t window_of(const Space& space, const Moment& at) { return at.by_step ? at.step - 1 : space.allocations; }

// --- spaces -------------------------------------------------------------------------------------------------------------

Recorder::SpaceState* find_space(Recorder& r, const SpaceKey& key) {
  const uint32_t count = r.space_count.load(std::memory_order_acquire);  // pairs with add_space
  for (uint32_t i = 0; i < count; i++)
    if (r.spaces[i].key == key) return &r.spaces[i];
  return nullptr;
}

Recorder::SpaceState* add_space(Recorder& r, const SpaceKey& key) {
  Locked hold(r.spaces_lock);
  if (Recorder::SpaceState* made = find_space(r, key)) return made;
  const uint32_t n = r.space_count.load(std::memory_order_relaxed);
  if (n == Recorder::kMaxSpaces) return nullptr;
  static constexpr Space kEmpty = {};
  Space space = kEmpty;
  space.layer = key.layer;
  space.memory = key.memory;
  space.device = static_cast<int16_t>(key.device);
  const uint32_t id = append(*r.file, kSpaces, &space);
  if (!id) return nullptr;
  r.spaces[n] = {key, id, key.layer == Layer::kDriver ? &r.driver : &r.torch[n]};
  r.space_count.store(n + 1, std::memory_order_release);  // pairs with find_space
  return &r.spaces[n];
}

Recorder::SpaceState* space_of(Recorder& r, const SpaceKey& key) {
  Recorder::SpaceState* space = find_space(r, key);
  return space ? space : add_space(r, key);
}

Space& space_record(Recorder& r, uint32_t id) { return record<Space>(*r.file, kSpaces, id); }
Site& site_record(Recorder& r, uint32_t id) { return record<Site>(*r.file, kSites, id); }
Block& block_record(Recorder& r, uint32_t id) { return record<Block>(*r.file, kBlocks, id); }

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

// To be called before a site's live bytes change: what they were is what they were at the peak, when the work ended, and in
// the windows gone by.
void before_change(Recorder& r, Site& site, const Space& space, const Moment& at) {
  if (site.peak_number != space.peak_number) {
    site.peak_number = space.peak_number;
    site.saved_peak_bytes = site.live_bytes;
    site.saved_peak_blocks = site.live_blocks;
  }
  if (at.work_ended) {
    if (!site.end_saved) {
      site.end_bytes = site.live_bytes;
      site.end_blocks = site.live_blocks;
      site.end_saved = 1;
    }
  } else if (site.curve) {
    advance(record<Curve>(*r.file, kCurves, site.curve), at.by_step, window_of(space, at), site.live_bytes);
  }
}

void after_change(Recorder& r, Site& site, Space& space, const Moment& at) {
  if (site.curve && !at.work_ended) note(record<Curve>(*r.file, kCurves, site.curve), site.live_bytes);
  note_series(space, space.allocations + space.frees - 1, at.time_ms, at.step);
}

void add_live(Site& site, Space& space, uint64_t size, const Moment& at) {
  site.live_bytes += size;
  site.live_blocks++;
  space.live_bytes += size;
  space.live_blocks++;
  if (site.live_bytes > site.max_live_bytes) site.max_live_bytes = site.live_bytes;
  if (site.live_blocks > site.max_live_blocks) site.max_live_blocks = site.live_blocks;
  if (space.live_bytes > space.peak_bytes) {
    space.peak_bytes = space.live_bytes;
    space.peak_number++;
    space.peak_time_ms = at.time_ms;
    space.peak_step = at.step;
  }
}

void remove_live(Site& site, Space& space, uint64_t size) {
  site.live_bytes -= size;
  site.live_blocks--;
  space.live_bytes -= size;
  space.live_blocks--;
}

void count_allocation(Site& site, uint64_t size, uint64_t serial, const Moment& at) {
  if (site.allocations == 0) site.first_serial = serial;
  else if (size != site.size_last) site.size_changes++;
  if (site.live_blocks) site.allocs_over_live++;
  if (size > site.size_max) {
    if (site.allocations) site.new_max_sizes++;
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
  site.last_free_time_ms = at.time_ms;
  site.last_free_step = at.step;
  const uint32_t steps = at.step - block.step;
  const uint32_t bucket = steps == 0 ? 0 : 32 - static_cast<uint32_t>(std::countl_zero(steps));
  site.lifetime_steps[bucket < kLifetimeBuckets ? bucket : kLifetimeBuckets - 1]++;
}

// --- blocks -------------------------------------------------------------------------------------------------------------

uint32_t new_block(Recorder& r, Recorder::Domain& domain) {
  if (const uint32_t id = domain.free_block) {
    domain.free_block = block_record(r, id).site;
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
  Block& block = block_record(r, id);
  block.serial.store(0, std::memory_order_release);  // pairs with the reader's second look
  block.site = domain.free_block;
  domain.free_block = id;
}

void write_block(Block& block, const Allocation& a, uint32_t site, uint64_t serial, const Moment& at) {
  block.address = a.address;
  block.size = a.size;
  block.owner = a.owner;
  block.site = site;
  block.thread = a.thread;
  block.time_ms = at.time_ms;
  block.step = at.step;
  block.flags = 0;
  block.serial.store(serial, std::memory_order_release);  // pairs with the reader's first look
}

// Takes a live block's bytes out of its site and space, and its address out of the index. The record is left to the caller.
void forget_block(Recorder& r, Recorder::Domain& domain, Block& block, const Moment& at) {
  Site& site = site_record(r, block.site);
  Space& space = space_record(r, site.space);
  before_change(r, site, space, at);
  count_free(site, block, at);
  remove_live(site, space, block.size);
  space.frees++;
  after_change(r, site, space, at);
  domain.blocks.erase(block.address);
}

// A block that is gone for good. Survivors of the program's work stay in the file, marked.
void drop_block(Recorder& r, Recorder::Domain& domain, uint32_t id, const Moment& at) {
  Block& block = block_record(r, id);
  forget_block(r, domain, block, at);
  if (at.work_ended && block.serial.load(std::memory_order_relaxed) <= r.file->header->work_ended_serial)
    block.flags |= kFreedAfterWork;
  else
    recycle_block(r, domain, id);
}

bool stopped(Recorder& r) {
  if (!r.file->stopped.load(std::memory_order_relaxed)) return false;
  r.file->header->lost_events.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void lose_event(Recorder& r) { r.file->header->lost_events.fetch_add(1, std::memory_order_relaxed); }

// --- incidents ----------------------------------------------------------------------------------------------------------

constexpr uint32_t kMaxIncidents = 4096;
constexpr uint32_t kScanPauseMs = 1000;

void insert_top(Incident& incident, uint32_t site, uint64_t bytes) {
  uint32_t at = incident.top_count;
  if (at == kTopSites) {
    if (bytes <= incident.top[--at].bytes) return;
  } else {
    incident.top_count++;
  }
  for (; at > 0 && incident.top[at - 1].bytes < bytes; at--) incident.top[at] = incident.top[at - 1];
  incident.top[at] = {site, 0, bytes};
}

// What filled the space at this moment. Rare, and bounded in time: refused allocations may come in a retry loop.
void find_top_sites(Recorder& r, Incident& incident, const Moment& at) {
  if (incident.count && at.time_ms - r.last_scan_ms < kScanPauseMs) return;
  r.last_scan_ms = at.time_ms;
  incident.top_count = 0;
  const uint64_t count = r.file->header->tables[kSites].count.load(std::memory_order_acquire);
  for (uint32_t id = 1; id < count; id++) {
    const Site& site = site_record(r, id);
    if (site.space == incident.space && site.live_bytes) insert_top(incident, id, site.live_bytes);
  }
}

uint32_t incident_of(Recorder& r, const IncidentReport& report, uint32_t space, const Moment& at) {
  const uint64_t key = hash_mix(uint64_t{report.stack} << 32 | space << 8 | static_cast<uint32_t>(report.fault),
                                hash_mix(static_cast<uint64_t>(report.kind), report.name));
  if (const uint32_t id = r.incidents.find(key)) return id;
  if (r.file->header->tables[kIncidents].count.load(std::memory_order_relaxed) >= kMaxIncidents) return 0;
  Incident incident = {};
  incident.kind = report.kind;
  incident.fault = report.fault;
  incident.stack = report.stack;
  incident.api = report.api ? intern_string(*r.interner, report.api) : 0;
  incident.space = static_cast<uint16_t>(space);
  incident.name = report.name;
  incident.first_time_ms = at.time_ms;
  incident.first_step = at.step;
  const uint32_t id = append(*r.file, kIncidents, &incident);
  if (id) r.incidents.insert(key, id);
  return id;
}

bool dies_with_context(const Site& site, const Space& space, const Block& block, int device, uint64_t context) {
  if (space.layer != Layer::kDriver || site.kind == Kind::kStreamOrdered || site.kind == Kind::kRegistered) return false;
  return context ? block.owner == context : space.memory == Memory::kDevice && space.device == device;
}

}  // namespace

void record_allocation(Recorder& r, const Allocation& a) {
  if (stopped(r)) return;
  Recorder::SpaceState* state = space_of(r, a.space);
  if (!state) return lose_event(r);
  const Moment at = now(r);
  Recorder::Domain& domain = *state->domain;
  Locked hold(domain.lock);
  if (const uint32_t stale = domain.blocks.find(a.address)) drop_block(r, domain, stale, at);  // its free was not seen
  const uint32_t site_id = site_of(r, domain, a, state->record, at);
  const uint32_t block_id = site_id ? new_block(r, domain) : 0;
  if (!block_id || !domain.blocks.insert(a.address, block_id)) return lose_event(r);

  Site& site = site_record(r, site_id);
  Space& space = space_record(r, state->record);
  const uint64_t serial = r.file->header->serial.fetch_add(1, std::memory_order_relaxed) + 1;
  write_block(block_record(r, block_id), a, site_id, serial, at);
  before_change(r, site, space, at);
  count_allocation(site, a.size, serial, at);
  add_live(site, space, a.size, at);
  space.allocations++;
  after_change(r, site, space, at);
}

void record_free(Recorder& r, const SpaceKey& key, uint64_t address) {
  if (stopped(r)) return;
  Recorder::SpaceState* state = find_space(r, key);
  const Moment at = now(r);
  if (state) {
    Locked hold(state->domain->lock);
    if (const uint32_t id = state->domain->blocks.find(address)) return drop_block(r, *state->domain, id, at);
  }
  r.file->header->unknown_frees.fetch_add(1, std::memory_order_relaxed);
}

TakenBlock take_block(Recorder& r, uint64_t address, uint32_t kinds) {
  if (stopped(r)) return {};
  const Moment at = now(r);
  Locked hold(r.driver.lock);
  const uint32_t id = r.driver.blocks.find(address);
  if (!id) return {};
  Block& block = block_record(r, id);
  if (!(kinds >> static_cast<uint32_t>(site_record(r, block.site).kind) & 1)) return {};
  const TakenBlock taken{id, block.serial.load(std::memory_order_relaxed)};
  forget_block(r, r.driver, block, at);
  if (at.work_ended) block.flags |= kFreedAfterWork;
  else block.serial.store(0, std::memory_order_release);  // pairs with the reader's second look
  return taken;
}

void put_back(Recorder& r, const TakenBlock& taken) {
  const Moment at = now(r);
  Locked hold(r.driver.lock);
  Block& block = block_record(r, taken.block);
  if (r.driver.blocks.find(block.address) || !r.driver.blocks.insert(block.address, taken.block)) return lose_event(r);
  Site& site = site_record(r, block.site);
  Space& space = space_record(r, site.space);
  before_change(r, site, space, at);
  site.frees--;
  space.frees--;
  add_live(site, space, block.size, at);
  block.flags &= ~kFreedAfterWork;
  block.serial.store(taken.serial, std::memory_order_release);  // pairs with the reader's first look
}

void give_up(Recorder& r, const TakenBlock& taken) {
  Locked hold(r.driver.lock);
  Block& block = block_record(r, taken.block);
  r.recent[hash_mix(0, block.address) % Recorder::kRecentFrees] = {block.address, block.site};
  if (!(block.flags & kFreedAfterWork)) recycle_block(r, r.driver, taken.block);
}

AddressHistory history_of(Recorder& r, uint64_t address) {
  Locked hold(r.driver.lock);
  if (const uint32_t id = r.driver.blocks.find(address)) return {block_record(r, id).site, true};
  const Recorder::RecentFree& recent = r.recent[hash_mix(0, address) % Recorder::kRecentFrees];
  return {recent.address == address ? recent.site : 0, false};
}

uint64_t drop_context(Recorder& r, int device, uint64_t context) {
  if (stopped(r)) return 0;
  const Moment at = now(r);
  Locked hold(r.driver.lock);
  uint64_t bytes = 0;
  const uint64_t count = r.file->header->tables[kBlocks].count.load(std::memory_order_relaxed);
  for (uint32_t id = 1; id < count; id++) {
    const Block& block = block_record(r, id);
    if (!block.serial.load(std::memory_order_relaxed) || block.flags & kFreedAfterWork) continue;
    const Site& site = site_record(r, block.site);
    if (!dies_with_context(site, space_record(r, site.space), block, device, context)) continue;
    bytes += block.size;
    drop_block(r, r.driver, id, at);
  }
  return bytes;
}

void record_reserved(Recorder& r, const SpaceKey& key, uint64_t reserved_bytes) {
  Recorder::SpaceState* state = space_of(r, key);
  if (!state) return;
  Locked hold(state->domain->lock);
  Space& space = space_record(r, state->record);
  space.reserved_bytes = reserved_bytes;
  if (reserved_bytes > space.reserved_peak_bytes) space.reserved_peak_bytes = reserved_bytes;
}

void record_incident(Recorder& r, const IncidentReport& report) {
  if (r.file->stopped.load(std::memory_order_relaxed)) return;
  const Moment at = now(r);
  Recorder::SpaceState* state = report.space.layer == Layer::kNone ? nullptr : space_of(r, report.space);
  Locked hold(r.incidents_lock);
  const uint32_t id = incident_of(r, report, state ? state->record : 0, at);
  if (!id) return;
  Incident& incident = record<Incident>(*r.file, kIncidents, id);
  if (state) {
    Space& space = space_record(r, state->record);
    incident.live_bytes = space.live_bytes;
    incident.reserved_bytes = report.reserved_bytes ? report.reserved_bytes : space.reserved_bytes;
    incident.total_bytes = space.total_bytes;
    if (report.kind == IncidentKind::kOutOfMemory) {
      space.failed_allocations++;
      find_top_sites(r, incident, at);
    }
  }
  incident.detail = static_cast<uint16_t>(report.detail);
  incident.other_site = report.other_site;
  incident.address = report.address;
  incident.size = report.size;
  incident.last_time_ms = at.time_ms;
  incident.last_step = at.step;
  incident.serial = r.file->header->serial.load(std::memory_order_relaxed);
  incident.count++;
}

bool space_has_name(Recorder& r, const SpaceKey& key) {
  Recorder::SpaceState* state = space_of(r, key);
  return !state || space_record(r, state->record).name != 0;
}

void name_space(Recorder& r, const SpaceKey& key, uint32_t name, uint64_t total_bytes) {
  Recorder::SpaceState* state = space_of(r, key);
  if (!state) return;
  Space& space = space_record(r, state->record);
  space.name = name;
  space.total_bytes = total_bytes;
}

void record_step(Recorder& r, StepSource source) {
  Header& header = *r.file->header;
  if (static_cast<uint32_t>(source) < static_cast<uint32_t>(header.step_source)) return;
  header.step_source = source;
  if (header.steps.fetch_add(1, std::memory_order_relaxed) == 0) header.first_step_time_ms = now(r).time_ms;
}

void record_work_ended(Recorder& r) {
  Header& header = *r.file->header;
  if (header.work_ended_serial) return;
  const Moment at = now(r);
  header.work_ended_time_ms = at.time_ms;
  header.work_ended_step = at.step;
  header.work_ended_serial = header.serial.load(std::memory_order_relaxed);
}

}  // namespace vramtrack

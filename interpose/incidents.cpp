// Rare events: folded when equal, and for a refused allocation with what filled the memory at that moment.

#include "interpose/hash.h"
#include "interpose/interner.h"
#include "interpose/recorder_internal.h"

namespace vramtrack {
namespace {

using namespace format;

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

}  // namespace

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

}  // namespace vramtrack

// What the recorder's own files share: the moment of an event, and the records of the capture by name.
#pragma once

#include "interpose/recorder.h"

namespace vramtrack {

struct Moment {
  uint32_t time_ms, step;
  format::Clock clock;
  uint32_t iterations;  // begun, as the clock counts
  bool work_ended;
  uint64_t end_number;  // see format::Header
};

Moment now(const Recorder&);

// After the end of the work, before an allocation: more than a teardown makes were not the end (an interpreter embedded in a
// program may be done long before it).
void resume_if_it_goes_on(Recorder&);

// Of the driver's blocks or of handles.
Recorder::Domain& domain_of(Recorder&, format::Layer);

// The space of `key`; null if there is none yet.
Recorder::SpaceState* find_space(Recorder&, const SpaceKey& key);
// Made if need be. Null: no more can be.
Recorder::SpaceState* space_of(Recorder&, const SpaceKey& key);

inline format::Space& space_record(Recorder& r, uint32_t id) { return record<format::Space>(*r.file, format::kSpaces, id); }
inline format::Site& site_record(Recorder& r, uint32_t id) { return record<format::Site>(*r.file, format::kSites, id); }
inline format::Block& block_record(Recorder& r, uint32_t id) { return record<format::Block>(*r.file, format::kBlocks, id); }

}  // namespace vramtrack

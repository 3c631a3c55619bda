// Which memory does an event concern, when did it happen, in which step?

#include <cstring>

#include "interpose/clock.h"
#include "interpose/recorder_internal.h"

namespace vramtrack {

using namespace format;

namespace {

// Allocations. If the work goes on, the records of blocks that were freed meanwhile are not used again; that happens once.
constexpr uint64_t kMostInTeardown = 64;
constexpr uint32_t kLongestReturnMs = 1000;  // from the return of main() to the interpreter's teardown

}  // namespace

Moment now(const Recorder& r) {
  Header& header = *r.file->header;
  const uint64_t ns = nanoseconds(CLOCK_MONOTONIC_COARSE);  // enough for births, and a fifth of the fine clock's cost
  const uint64_t start = header.start_monotonic_ns;
  const auto ms = static_cast<uint32_t>(ns > start ? (ns - start) / 1000000 : 0);
  if (header.last_time_ms.load(std::memory_order_relaxed) != ms) header.last_time_ms.store(ms, std::memory_order_relaxed);
  const uint32_t steps = header.steps.load(std::memory_order_relaxed);
  const uint32_t passes = header.backward_passes.load(std::memory_order_relaxed);
  const Clock clock = steps ? Clock::kStep : passes ? Clock::kBackward : Clock::kAllocations;
  const bool work_ended = header.work_ended_serial.load(std::memory_order_acquire) != 0;  // pairs with record_work_ended
  const uint64_t end_number = work_ended ? header.end_number : header.serial.load(std::memory_order_relaxed);
  return {ms, steps, clock, steps ? steps : passes, work_ended, end_number};
}

Recorder::SpaceState* find_space(Recorder& r, const SpaceKey& key) {
  const uint32_t count = r.space_count.load(std::memory_order_acquire);  // pairs with add_space
  for (uint32_t i = 0; i < count; i++)
    if (r.spaces[i].key == key) return &r.spaces[i];
  return nullptr;
}

Recorder::Domain& domain_of(Recorder& r, Layer layer) { return layer == Layer::kHandles ? r.handles : r.driver; }

namespace {

Recorder::SpaceState* add_space(Recorder& r, const SpaceKey& key) {
  Locked hold(r.spaces_lock);
  if (Recorder::SpaceState* made = find_space(r, key)) return made;
  const uint32_t n = r.space_count.load(std::memory_order_relaxed);
  if (n == Recorder::kMaxSpaces) return nullptr;
  const uint32_t id = append_empty(*r.file, kSpaces, 1);  // too large for a small thread's stack
  if (!id) return nullptr;
  Space& space = space_record(r, id);
  space.memory = key.memory;
  space.device = static_cast<int16_t>(key.device);
  space.layer = key.layer;
  r.spaces[n] = {key, id, key.layer == Layer::kPytorch ? &r.torch[n] : &domain_of(r, key.layer)};
  r.space_count.store(n + 1, std::memory_order_release);  // pairs with find_space
  return &r.spaces[n];
}

}  // namespace

Recorder::SpaceState* space_of(Recorder& r, const SpaceKey& key) {
  Recorder::SpaceState* space = find_space(r, key);
  return space ? space : add_space(r, key);
}

bool space_has_name(Recorder& r, const SpaceKey& key) {
  Recorder::SpaceState* state = space_of(r, key);
  return !state || space_record(r, state->record).name != 0;
}

void name_space(Recorder& r, const SpaceKey& key, uint32_t name, uint64_t total_bytes, const char* uuid) {
  Recorder::SpaceState* state = space_of(r, key);
  if (!state) return;
  Space& space = space_record(r, state->record);
  space.name = name;
  space.total_bytes = total_bytes;
  memcpy(space.uuid, uuid, sizeof space.uuid);
}

void record_step(Recorder& r, StepSource source) {
  Header& header = *r.file->header;
  if (static_cast<uint32_t>(source) < static_cast<uint32_t>(header.step_source)) return;
  header.step_source = source;
  header.steps.fetch_add(1, std::memory_order_relaxed);
}

void resume_if_it_goes_on(Recorder& r) {
  Header& header = *r.file->header;
  const uint64_t serial = header.serial.load(std::memory_order_relaxed), end = header.work_ended_serial;
  if (!end || serial - end < kMostInTeardown || r.exits.load(std::memory_order_relaxed)) return;
  r.ended_early.store(true, std::memory_order_relaxed);
  header.work_ended_serial.store(0, std::memory_order_relaxed);
}

void record_work_ended(Recorder& r, WorkEnd end) {
  Header& header = *r.file->header;
  if (end == WorkEnd::kProcessExits || end == WorkEnd::kPythonProcessExits) r.exits.store(true, std::memory_order_relaxed);
  if (header.work_ended_serial || (end == WorkEnd::kInterpreterFinalizes && r.ended_early.load(std::memory_order_relaxed))) return;
  const uint32_t last_event_ms = header.last_time_ms.load(std::memory_order_relaxed);
  const Moment at = now(r);
  const bool went_on_without_them = at.time_ms - last_event_ms > kLongestReturnMs;
  header.work_ended_time_ms = at.time_ms;
  header.work_ended_step = at.step;
  const uint64_t serial = header.serial.load(std::memory_order_relaxed);
  header.end_number = end == WorkEnd::kProcessExits || went_on_without_them ? kAfterWork : serial;
  header.work_ended_serial.store(serial, std::memory_order_release);
}

}  // namespace vramtrack

// Who the traced process is, how it ended, and what of it could not be seen: what a capture's header says.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "report/capture_reader_heap.h"

namespace vramtrack::reader {
namespace {

// Since the process started; the file's times are since recording began.
double seconds(const format::Header& header, uint32_t ms) { return (uint64_t{header.began_ms} + ms) / 1000.0; }

std::string python_version(uint32_t hex) {
  if (hex == 0) return {};
  return fmt::format("{}.{}.{}", hex >> 24, hex >> 16 & 0xff, hex >> 8 & 0xff);
}

std::string utc(uint64_t realtime_ns) {
  auto time = static_cast<std::time_t>(realtime_ns / 1'000'000'000);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time));
}

std::string stop_reason(const format::Header& header) {
  std::string why;
  switch (header.stop_reason) {
    case format::StopReason::kNone: return {};
    case format::StopReason::kDiskFull: why = "the disk is full"; break;
    case format::StopReason::kFileSizeLimit: why = "the file size limit (ulimit -f) was reached"; break;
    case format::StopReason::kMapFailed: why = "the capture could not be mapped"; break;
    case format::StopReason::kTableFull: why = "a table of the capture is full"; break;
    default: why = "an internal error"; break;
  }
  std::string error = header.stop_errno == 0 ? "" : fmt::format(" (errno {})", header.stop_errno);
  return fmt::format("recording stopped after {:.1f} s: {}{}", seconds(header, header.stop_time_ms), why, error);
}

std::string ended(const format::Header& header) {
  switch (header.end_kind) {
    case format::EndKind::kExit: return fmt::format("exit:{}", header.end_code);
    case format::EndKind::kSignal: return fmt::format("signal:{}", header.end_code);
    default: return "unknown";
  }
}

void note_what_was_not_seen(const format::Header& header, Process& process) {
  auto note = [&](std::string text) { process.notes.push_back(std::move(text)); };
  if (header.python == format::PythonState::kUnsupportedVersion) {
    note(fmt::format("Python {} is not supported: stacks have no Python frames", process.python_version));
  }
  if (header.python == format::PythonState::kSelfCheckFailed) {
    note(fmt::format("reading the frames of Python {} failed its self-check: stacks have no Python frames",
                     process.python_version));
  }
  if (header.torch == format::TorchState::kUnsupportedVersion) {
    note("PyTorch before 1.10 does not tell the addresses of its tensors: they are seen only as the segments it takes from the driver");
  }
  if (header.unwinder == format::UnwinderState::kLibgcc) note("libunwind was not found: native stacks took the slow way");
  if (header.unwinder == format::UnwinderState::kNone) note("no unwinder was found: stacks have no native frames");
  if (header.stacks_cut != 0) {
    note("the program has more distinct stacks than are kept: the rest is counted under their first frames or one site");
  }
  if (process.unknown_frees != 0) {
    note(fmt::format("{} frees of blocks that were allocated before recording began", process.unknown_frees));
  }
}

std::vector<ResidentPoint> resident(const format::Header& header) {
  std::vector<ResidentPoint> points;
  const format::Resident& from = header.resident;
  if (from.samples == 0 || from.scale >= 32) return points;
  const uint32_t count = std::min(((from.samples - 1) >> from.scale) + 1, format::kUsagePoints);
  for (const format::ResidentPoint& point : std::span(from.point, count)) {
    points.push_back({seconds(header, point.time_ms), uint64_t{point.least_kib} * 1024});
  }
  return points;
}

}  // namespace

Process read_process(const HeaderCopy& copy, Strings& strings) {
  const format::Header& header = *copy.operator->();
  Process process;
  process.pid = static_cast<int>(header.pid);
  process.ppid = static_cast<int>(header.ppid);
  process.rank = header.rank;
  process.argv = strings.list(header.argv);
  process.environment = strings.list(header.environment);
  process.exe = strings.get(header.exe);
  process.host = strings.get(header.host);
  process.python_version = python_version(header.python_version);
  process.has_torch = header.torch != format::TorchState::kAbsent;
  process.start_time = utc(header.start_realtime_ns - std::min<uint64_t>(header.start_realtime_ns, uint64_t{header.began_ms} * 1'000'000));
  process.recorded_from = seconds(header, 0);
  process.end_time_known = header.end_kind != format::EndKind::kUnknown;
  process.duration = seconds(header, std::max(header.end_time_ms, header.last_time_ms.load(std::memory_order_relaxed)));
  process.ended = ended(header);
  process.steps = header.steps.load(std::memory_order_relaxed);
  auto source = static_cast<uint32_t>(header.step_source);
  if (source <= static_cast<uint32_t>(StepSource::kApi)) process.step_source = static_cast<StepSource>(source);
  process.backward_passes = header.backward_passes;
  process.last_backward_serial = header.last_backward_serial;
  process.allocations = header.serial.load(std::memory_order_relaxed);
  process.work_ended = header.work_ended_serial != 0;
  process.work_ended_time = seconds(header, header.work_ended_time_ms);
  process.work_ended_step = header.work_ended_step;
  process.work_ended_serial = header.work_ended_serial;
  process.lost_events = header.lost_events.load(std::memory_order_relaxed);
  process.native_unwinds = header.native_unwinds.load(std::memory_order_relaxed);
  process.unknown_frees = header.unknown_frees.load(std::memory_order_relaxed);
  process.stop_reason = stop_reason(header);
  process.resident = resident(header);
  note_what_was_not_seen(header, process);
  return process;
}

}  // namespace vramtrack::reader

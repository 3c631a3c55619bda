// Adds to a capture what was measured of its process from outside. See usage_writer.h.
#include "report/usage_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "report/capture_reader_tables.h"
#include "report/process_status.h"

namespace vramtrack {
namespace {

using format::Header;
using format::Space;

constexpr uint64_t kMostSpaces = 1024;  // no process has so many

struct File {
  int fd;
  explicit File(const std::string& path) : fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {}
  ~File() {
    if (fd >= 0) close(fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool read(uint64_t offset, void* to, size_t size) const {
    return pread(fd, to, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
  }
};

void merge(format::UsagePoint& into, const format::UsagePoint& later) {
  into = {std::min(into.rest, later.rest), later.time_ms, 0};
}
void merge(format::ResidentPoint& into, const format::ResidentPoint& later) {
  into = {std::min(into.least_kib, later.least_kib), later.time_ms};
}

// To a series of bounded length: when its points run out, neighbours are merged and each covers twice as much.
template <typename Series, typename Point>
void add_point(Series& series, const Point& now) {
  while (series.samples >> series.scale >= format::kUsagePoints) {
    for (uint32_t i = 0; i < format::kUsagePoints / 2; ++i) {
      series.point[i] = series.point[2 * i];
      merge(series.point[i], series.point[2 * i + 1]);
    }
    ++series.scale;
  }
  Point& at = series.point[series.samples >> series.scale];
  const bool is_new = (series.samples & ((1u << series.scale) - 1)) == 0;
  is_new ? static_cast<void>(at = now) : merge(at, now);
  ++series.samples;
}

}  // namespace

bool UsageWriter::add(const std::string& path, pid_t pid, const std::array<uint8_t, 16>& uuid, uint64_t bytes) {
  const File file(path);
  const auto header = std::make_unique<reader::HeaderCopy>();
  if (file.fd < 0 || !file.read(0, header->bytes, sizeof(Header))) return false;
  const Header& head = *header->operator->();
  const format::Table& table = head.tables[format::kSpaces];
  if (!reader::is_capture_of(*header, pid)) return false;
  if (head.work_ended_serial != 0 || table.record_size != sizeof(Space)) return true;

  const uint64_t spaces = std::min<uint64_t>(table.count.load(std::memory_order_relaxed), kMostSpaces);
  for (uint64_t i = 1; i < spaces; ++i) {
    const uint64_t place = reader::place_of(table, i);
    const auto space = std::make_unique<Space>();
    if (place == 0 || !file.read(place, space.get(), sizeof(Space))) return true;
    const Space& is = *space;
    const bool is_device = is.layer == format::Layer::kDriver && is.memory == format::Memory::kDevice;
    if (!is_device || std::memcmp(is.uuid, uuid.data(), uuid.size()) != 0) continue;
    format::Usage& usage = usage_[{path, place}];
    const uint64_t tracked = is.live_bytes - std::min(is.live_bytes, is.managed_bytes);
    usage.used = bytes;
    usage.tracked = tracked;
    usage.peak_used = std::max(usage.peak_used, bytes);
    add_point(usage, format::UsagePoint{bytes - std::min(bytes, tracked), recording_age_ms(head.start_monotonic_ns), 0});
    if (pwrite(file.fd, &usage, sizeof usage, static_cast<off_t>(place + offsetof(Space, usage))) < 0) return true;
  }
  return true;
}

void UsageWriter::add_resident(const std::string& path) {
  const File file(path);
  const auto header = std::make_unique<reader::HeaderCopy>();
  if (file.fd < 0 || !file.read(0, header->bytes, sizeof(Header))) return;
  const Header& head = *header->operator->();
  const auto pid = static_cast<int>(head.pid);
  if (!reader::is_capture_of(*header, pid) || head.work_ended_serial != 0) return;
  const uint64_t bytes = resident_bytes(pid, head.process_start_ticks);
  if (bytes == 0) return;
  format::Resident& resident = resident_[path];
  const auto kib = static_cast<uint32_t>(std::min<uint64_t>(bytes / 1024, UINT32_MAX));
  add_point(resident, format::ResidentPoint{kib, recording_age_ms(head.start_monotonic_ns)});
  // What cannot be written (a full disk has room for this page) is only not known.
  [[maybe_unused]] const ssize_t written = pwrite(file.fd, &resident, sizeof resident, offsetof(Header, resident));
}

}  // namespace vramtrack

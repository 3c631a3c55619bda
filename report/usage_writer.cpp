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

void add_point(format::Usage& usage, uint64_t rest, uint32_t time_ms) {
  uint32_t point = usage.samples >> usage.scale;
  if (point >= format::kUsagePoints) {
    for (uint32_t i = 0; i < format::kUsagePoints / 2; ++i) {
      const format::UsagePoint &a = usage.point[2 * i], &b = usage.point[2 * i + 1];
      usage.point[i] = {std::min(a.rest, b.rest), b.time_ms, 0};
    }
    ++usage.scale;
    point = usage.samples >> usage.scale;
  }
  const bool is_new = (usage.samples & ((1u << usage.scale) - 1)) == 0;
  format::UsagePoint& at = usage.point[point];
  at = {is_new ? rest : std::min(at.rest, rest), time_ms, 0};
  ++usage.samples;
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

  const uint64_t spaces = std::min<uint64_t>(table.count.load(std::memory_order_relaxed), table.first_chunk_records);
  for (uint64_t i = 1; i < spaces; ++i) {
    const uint64_t place = table.chunks[0].load(std::memory_order_relaxed) + i * sizeof(Space);
    const auto space = std::make_unique<Space>();
    if (!file.read(place, space.get(), sizeof(Space))) return true;
    const Space& is = *space;
    const bool is_device = is.layer == format::Layer::kDriver && is.memory == format::Memory::kDevice;
    if (!is_device || std::memcmp(is.uuid, uuid.data(), uuid.size()) != 0) continue;
    format::Usage& usage = usage_[{path, place}];
    usage.used = bytes;
    usage.tracked = is.live_bytes;
    usage.peak_used = std::max(usage.peak_used, bytes);
    add_point(usage, bytes - std::min(bytes, is.live_bytes), recording_age_ms(head.start_monotonic_ns));
    if (pwrite(file.fd, &usage, sizeof usage, static_cast<off_t>(place + offsetof(Space, usage))) < 0) return true;
  }
  return true;
}

}  // namespace vramtrack

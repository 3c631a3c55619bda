// What a capture file says: opens it, tells a capture from anything else, and hands it to the reader of its records.
#include "report/capture_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "report/capture_reader_heap.h"
#include "report/process_status.h"

namespace vramtrack {
namespace {

using reader::HeaderCopy;
using reader::is_capture_of;
using reader::Source;

ReadError error(const std::string& name, std::string_view what, std::string_view why) {
  return {fmt::format("{}: {}: {}", name, what, why)};
}

std::variant<Heap, ReadError> read_source(const Source& source, const std::string& name) {
  HeaderCopy header;
  size_t got = source.read_at(0, header.bytes);
  if (got < sizeof(header->magic) || std::memcmp(header->magic, format::kMagic, sizeof(format::kMagic)) != 0) {
    return error(name, "not a vramtrack capture", got == 0 ? "the file is empty" : "it does not begin with the magic bytes");
  }
  if (got < offsetof(format::Header, version) + sizeof(header->version)) {
    return error(name, "not a whole capture", "it ends inside its header");
  }
  if (header->version != format::kVersion) {
    return error(name, "cannot read this capture",
                 fmt::format("its format is version {}, this vramtrack reads version {}", header->version, format::kVersion));
  }
  if (got < sizeof(format::Header)) return error(name, "not a whole capture", "it ends inside its header");
  Heap heap = reader::read_heap(source, header);
  Process& process = heap.process;
  if (process.ended == "unknown" && process_is_running(process.pid, header->process_start_ticks, process.host)) {
    process.ended = "running";
    process.end_time_known = true;
    process.duration = process.recorded_from + recording_age_ms(header->start_monotonic_ns) / 1000.0;
  }
  return heap;
}

}  // namespace

std::variant<Heap, ReadError> read_capture(std::span<const std::byte> bytes, const std::string& name) {
  auto read_at = [bytes](uint64_t offset, std::span<std::byte> into) -> size_t {
    if (offset >= bytes.size()) return 0;
    size_t size = std::min(into.size(), bytes.size() - offset);
    std::memcpy(into.data(), bytes.data() + offset, size);
    return size;
  };
  return read_source({read_at, [bytes] { return bytes.size(); }}, name);
}

std::variant<Heap, ReadError> read_capture(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not make the reader wait for a writer
  if (fd < 0) return error(path, "cannot be opened", std::strerror(errno));
  struct stat status = {};
  bool known = fstat(fd, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    close(fd);
    return error(path, "not a vramtrack capture", S_ISDIR(status.st_mode) ? "it is a directory" : "it is not a regular file");
  }
  auto read_at = [fd](uint64_t offset, std::span<std::byte> into) -> size_t {
    size_t done = 0;
    while (done < into.size()) {
      ssize_t got = pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  };
  auto size = [fd]() -> uint64_t {
    struct stat now = {};
    return fstat(fd, &now) == 0 ? static_cast<uint64_t>(now.st_size) : 0;
  };
  auto result = read_source({read_at, size}, path);
  close(fd);
  return result;
}

bool write_process_end(const std::string& path, int pid, uint64_t run_id, ProcessEnd end) {
  int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  HeaderCopy header;
  bool ours = pread(fd, header.bytes, sizeof(header.bytes), 0) == sizeof(header.bytes) && is_capture_of(header, pid) &&
              header->run_id == run_id;
  if (ours && header->end_kind == format::EndKind::kUnknown) {
    const int32_t code = end.code;
    const format::EndKind kind = end.by_signal ? format::EndKind::kSignal : format::EndKind::kExit;
    // Time and code first: whoever sees the kind must see both.
    const uint32_t time_ms = recording_age_ms(header->start_monotonic_ns);
    ours = pwrite(fd, &time_ms, sizeof(time_ms), offsetof(format::Header, end_time_ms)) == sizeof(time_ms) &&
           pwrite(fd, &code, sizeof(code), offsetof(format::Header, end_code)) == sizeof(code) &&
           pwrite(fd, &kind, sizeof(kind), offsetof(format::Header, end_kind)) == sizeof(kind);
  }
  close(fd);
  return ours;
}

}  // namespace vramtrack

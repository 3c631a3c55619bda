// How does the file come about and grow? See capture_file.h.
#include "interpose/capture_file.h"

#include <cstring>
#include <sys/resource.h>
#include <sys/stat.h>

#include "interpose/clock.h"
#include "interpose/sys.h"

namespace vramtrack {
namespace {

using namespace format;

constexpr uint64_t kPage = 4096;
constexpr uint64_t kReservedAddresses = 64ull << 30;  // of address space only; also the largest capture
constexpr uint64_t kLeastAddresses = 64ull << 20;

uint64_t round_to_page(uint64_t bytes) { return (bytes + kPage - 1) & ~(kPage - 1); }

uint64_t chunk_records(TableId id, uint32_t chunk) { return 1ull << (kShapes[id].first_chunk_shift + chunk); }
uint64_t chunk_bytes(TableId id, uint32_t chunk) { return round_to_page(chunk_records(id, chunk) * kShapes[id].record_size); }

bool fail(CaptureFile& file, StopReason reason, int error) {
  file.failure = reason;
  file.failure_errno = error;
  return false;
}

StopReason reason_of(int error) {
  switch (error) {
    case EFBIG: return StopReason::kFileSizeLimit;
    case ENOSPC: case EDQUOT: return StopReason::kDiskFull;
    default: return StopReason::kMapFailed;
  }
}

// Exceeding RLIMIT_FSIZE would send the program a SIGXFSZ it never asked for.
bool within_size_limit(uint64_t size) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur;
}

// File systems without fallocate get their blocks by being written to.
bool write_zeros(int fd, uint64_t offset, uint64_t size) {
  static const char zeros[16 << 10] = {};
  while (size) {
    const uint64_t part = size < sizeof zeros ? size : sizeof zeros;
    const int64_t n = sys::pwrite(fd, zeros, part, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    offset += n;
    size -= n;
  }
  return true;
}

bool allocate_on_disk(int fd, uint64_t offset, uint64_t size) {
  if (!within_size_limit(offset + size)) {
    errno = EFBIG;
    return false;
  }
  int r;
  do r = sys::fallocate(fd, offset, size);
  while (r != 0 && errno == EINTR);
  if (r == 0) return true;
  return (errno == EOPNOTSUPP || errno == ENOSYS) && write_zeros(fd, offset, size);
}

// Adds [used, used + size) to the file and the mapping.
bool extend(CaptureFile& file, int fd, uint64_t size) {
  if (file.used_bytes + size > file.reserved_bytes) return fail(file, StopReason::kTableFull, 0);
  if (!allocate_on_disk(fd, file.used_bytes, size)) return fail(file, reason_of(errno), errno);
  void* at = file.base + file.used_bytes;
  if (mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, file.used_bytes) == MAP_FAILED)
    return fail(file, StopReason::kMapFailed, errno);
  madvise(at, size, MADV_DONTFORK);  // a child must not write into its parent's capture
  file.used_bytes += size;
  return true;
}

// Moves a descriptor to where programs that count on low numbers, or close the first few, do not meet it.
int out_of_the_way(int fd) {
  constexpr int kHigh = 900;
  const int high = static_cast<int>(syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kHigh));
  if (high < 0) return fd;
  sys::close(fd);
  return high;
}

bool have_file(CaptureFile& file) {
  if (is_still_open(file.open)) return true;
  const int fd = sys::open(file.path, O_RDWR | O_NOFOLLOW);
  if (fd < 0) return fail(file, StopReason::kMapFailed, errno);
  if (!is_still_open({fd, file.open.device, file.open.inode})) {
    sys::close(fd);
    return fail(file, StopReason::kMapFailed, ENOENT);
  }
  file.open.fd = out_of_the_way(fd);
  return true;
}

bool add_chunk(CaptureFile& file, TableId id, uint32_t chunk) {
  if (!have_file(file)) return false;
  const uint64_t offset = file.used_bytes;
  if (!extend(file, file.open.fd, chunk_bytes(id, chunk))) return false;
  file.chunks[id][chunk] = file.base + offset;
  file.header->tables[id].chunks[chunk].store(offset, std::memory_order_release);  // pairs with the reader's acquire
  return true;
}

bool reserve_addresses(CaptureFile& file) {
  uint64_t size = kReservedAddresses;
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    while (size > limit.rlim_cur / 16 && size > kLeastAddresses) size /= 2;  // the program's limit is the program's
  for (; size >= kLeastAddresses; size /= 2) {
    void* p = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) continue;
    madvise(p, size, MADV_DONTFORK);
    file.base = static_cast<char*>(p);
    file.reserved_bytes = size;
    return true;
  }
  return fail(file, StopReason::kMapFailed, errno);
}

void lay_out(CaptureFile& file) {
  Header& header = *file.header;
  uint64_t offset = round_to_page(sizeof(Header));
  for (uint32_t t = 0; t < kTableCount; t++) {
    const auto id = static_cast<TableId>(t);
    Table& table = header.tables[t];
    table.record_size = kShapes[t].record_size;
    table.first_chunk_records = static_cast<uint32_t>(chunk_records(id, 0));
    table.chunks[0].store(offset, std::memory_order_relaxed);
    table.count.store(1, std::memory_order_relaxed);  // record 0 means "none"
    file.chunks[t][0] = file.base + offset;
    offset += chunk_bytes(id, 0);
  }
  header.version = kVersion;
  header.header_size = sizeof(Header);
  std::atomic_thread_fence(std::memory_order_release);
  memcpy(header.magic, kMagic, sizeof kMagic);  // last: a file without it is no capture yet
}

uint64_t initial_size() {
  uint64_t size = round_to_page(sizeof(Header));
  for (uint32_t t = 0; t < kTableCount; t++) size += chunk_bytes(static_cast<TableId>(t), 0);
  return size;
}

// Makes sure records [first, first + count) exist. The lock is held.
bool ensure(CaptureFile& file, TableId id, uint64_t first, uint64_t count) {
  const uint32_t last = place_of(id, first + count - 1).chunk;
  if (last >= kMaxChunks) return fail(file, StopReason::kTableFull, 0);
  for (uint32_t k = place_of(id, first).chunk; k <= last; k++)
    if (!file.chunks[id][k] && !add_chunk(file, id, k)) return false;
  return true;
}

bool ensure_or_stop(CaptureFile& file, TableId id, uint64_t first, uint64_t count) {
  if (file.stopped.load(std::memory_order_relaxed)) return false;
  if (first + count <= UINT32_MAX && ensure(file, id, first, count)) return true;
  if (first + count > UINT32_MAX) fail(file, StopReason::kTableFull, 0);
  stop_capture(file, file.failure, file.failure_errno);
  return false;
}

}  // namespace

bool is_still_open(const OpenFile& open) {
  struct stat st;
  return fstat(open.fd, &st) == 0 && st.st_dev == open.device && st.st_ino == open.inode;
}

bool create_capture_file(CaptureFile& file, const char* path) {
  if (strlen(path) >= sizeof file.path) return fail(file, StopReason::kMapFailed, ENAMETOOLONG);
  strcpy(file.path, path);
  const int fd = sys::open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (fd < 0) return fail(file, reason_of(errno), errno);
  file.open.fd = out_of_the_way(fd);
  struct stat st;
  fstat(file.open.fd, &st);
  file.open.device = st.st_dev;
  file.open.inode = st.st_ino;
  if (!reserve_addresses(file) || !extend(file, file.open.fd, initial_size())) {
    if (file.base) munmap(file.base, file.reserved_bytes);
    sys::close(file.open.fd);
    sys::unlink(path);
    return false;
  }
  file.header = reinterpret_cast<Header*>(file.base);
  lay_out(file);
  return true;
}

uint32_t append(CaptureFile& file, TableId id, const void* record) {
  Locked hold(file.lock);
  Table& table = file.header->tables[id];
  const uint64_t index = table.count.load(std::memory_order_relaxed);
  if (!ensure_or_stop(file, id, index, 1)) return 0;
  memcpy(record_at(file, id, index), record, table.record_size);
  table.count.store(index + 1, std::memory_order_release);  // pairs with the reader's acquire
  return static_cast<uint32_t>(index);
}

uint32_t append_empty(CaptureFile& file, TableId id, uint32_t count) {
  Locked hold(file.lock);
  Table& table = file.header->tables[id];
  const uint64_t index = table.count.load(std::memory_order_relaxed);
  if (!ensure_or_stop(file, id, index, count)) return 0;
  table.count.store(index + count, std::memory_order_release);
  return static_cast<uint32_t>(index);
}

uint32_t append_bytes(CaptureFile& file, uint32_t size) {
  Locked hold(file.lock);
  Table& table = file.header->tables[kStrings];
  uint64_t index = table.count.load(std::memory_order_relaxed);
  const RecordPlace place = place_of(kStrings, index);
  // A string lies inside one chunk; the rest of a chunk that is too short for it stays zero.
  const uint64_t left = chunk_records(kStrings, place.chunk) - place.index;
  if (size > left) index += left;
  if (!ensure_or_stop(file, kStrings, index, size)) return 0;
  table.count.store(index + size, std::memory_order_release);
  return static_cast<uint32_t>(index);
}

void stop_capture(CaptureFile& file, StopReason reason, int error) {
  if (file.stopped.exchange(true)) return;
  Header& header = *file.header;
  header.stop_reason = reason;
  header.stop_errno = static_cast<uint32_t>(error);
  header.stop_time_ms = static_cast<uint32_t>((monotonic_ns() - header.start_monotonic_ns) / 1000000);
}

}  // namespace vramtrack

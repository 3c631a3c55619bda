// The tables of a capture as plain vectors: the part of the reader that does not trust the file.
//
// Everything is copied out with pread, never mapped: a file that shrinks or rots under the reader gives short reads, which are
// damage, not SIGBUS. No table is taken to be longer than the file, so memory is bounded by the file's size.
#pragma once

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "interpose/capture_format.h"

namespace vramtrack::reader {

// Copies as many bytes from `offset` on as there are, and says how many that was.
using ReadAt = std::function<size_t(uint64_t offset, std::span<std::byte> into)>;

struct Source {
  ReadAt read_at;
  std::function<uint64_t()> size;  // bytes of the file now: a running process's grows while it is read
};

// A capture's header; the format's struct holds atomics and cannot be copied, so its bytes are.
struct HeaderCopy {
  alignas(format::Header) std::byte bytes[sizeof(format::Header)] = {};
  const format::Header* operator->() const { return reinterpret_cast<const format::Header*>(bytes); }
};

// Of the version that is read, and of this process.
bool is_capture_of(const HeaderCopy&, int pid);

// Where record `index` of a table lies in the file; 0 = it has no place yet.
uint64_t place_of(const format::Table&, uint64_t index);

// The bytes of a table, records side by side; parts that could not be read are zero, which is "not written".
struct TableCopy {
  std::vector<std::byte> bytes;
  size_t record_size = 1;

  size_t count() const { return bytes.size() / record_size; }
  template <typename Record>
  const Record& at(size_t index) const {
    return *reinterpret_cast<const Record*>(bytes.data() + index * sizeof(Record));
  }
};

// Reads table `id`, whose records must be `record_size` bytes. What cannot be read is named in `damage`.
TableCopy read_table(const Source&, const HeaderCopy&, format::TableId id, size_t record_size,
                     std::vector<std::string>& damage);

// The blocks of a table that may be written to meanwhile: only those that are whole. See the format's rule on serials.
TableCopy read_blocks(const Source&, const HeaderCopy&, std::vector<std::string>& damage);

// Strings by id. Many records may name one long string, so the bytes handed out are bounded too.
class Strings {
 public:
  Strings(TableCopy table, uint64_t file_size) : table_(std::move(table)), budget_(16 * file_size + (1 << 20)) {}

  std::string get(uint32_t id);                    // "" for 0 and for what cannot be read
  std::vector<std::string> list(uint32_t id);      // a NUL-separated list
  uint64_t bad() const { return bad_; }            // strings asked for that could not be read

 private:
  TableCopy table_;
  uint64_t budget_, bad_ = 0;
};

}  // namespace vramtrack::reader

// The tables of a capture as plain vectors: the part of the reader that does not trust the file.
#include "report/capture_reader_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace vramtrack::reader {
namespace {

constexpr const char* kTableNames[format::kTableCount] = {"strings", "modules", "frames", "stacks",   "spaces",
                                                          "sites",   "curves",  "blocks", "incidents", "pools", "streams"};

// Where the records of chunk `k` stand in the table.
struct ChunkRange {
  uint64_t first, end;
};

ChunkRange chunk_range(uint64_t first_chunk_records, uint32_t k) {
  return {first_chunk_records * ((uint64_t{1} << k) - 1), first_chunk_records * ((uint64_t{1} << (k + 1)) - 1)};
}

// How many records to believe in: never more than the file has room for.
uint64_t believable_count(const Source& source, const format::Table& table, const char* name, size_t record_size,
                          std::vector<std::string>& damage) {
  uint64_t count = table.count.load(std::memory_order_acquire);  // pairs with the writer's release: records below are complete
  if (count == 0) return 0;
  if (table.record_size != record_size || !std::has_single_bit(table.first_chunk_records)) {
    damage.push_back(fmt::format("{}: the table's description is damaged, {} records dropped", name, count));
    return 0;
  }
  uint64_t room = source.size() / record_size;
  if (count <= room) return count;
  damage.push_back(fmt::format("{}: {} records announced, the file has room for {}", name, count, room));
  return room;
}

}  // namespace

bool is_capture_of(const HeaderCopy& header, int pid) {
  return std::memcmp(header->magic, format::kMagic, sizeof(format::kMagic)) == 0 && header->version == format::kVersion &&
         header->pid == static_cast<uint32_t>(pid);
}

uint64_t place_of(const format::Table& table, uint64_t index) {
  for (uint32_t k = 0; k < format::kMaxChunks; ++k) {
    const ChunkRange range = chunk_range(table.first_chunk_records, k);
    if (index >= range.end) continue;
    const uint64_t chunk = table.chunks[k].load(std::memory_order_acquire);  // pairs with the release after the chunk was zeroed
    return chunk == 0 ? 0 : chunk + (index - range.first) * table.record_size;
  }
  return 0;
}

TableCopy read_table(const Source& source, const HeaderCopy& header, format::TableId id, size_t record_size,
                     std::vector<std::string>& damage) {
  const format::Table& table = header->tables[id];
  TableCopy copy;
  copy.record_size = record_size;
  uint64_t count = believable_count(source, table, kTableNames[id], record_size, damage);
  copy.bytes.resize(count * record_size);

  uint64_t missing = 0;
  for (uint32_t k = 0; k < format::kMaxChunks; ++k) {
    ChunkRange range = chunk_range(table.first_chunk_records, k);
    if (range.first >= count) break;
    uint64_t records = std::min(range.end, count) - range.first;
    uint64_t offset = table.chunks[k].load(std::memory_order_acquire);  // pairs with the release after the chunk was zeroed
    std::span<std::byte> into(copy.bytes.data() + range.first * record_size, records * record_size);
    uint64_t got = offset == 0 ? 0 : source.read_at(offset, into) / record_size;
    if (got == records) continue;
    missing += records - got;
    std::ranges::fill(into.subspan(got * record_size), std::byte{0});
  }
  if (missing != 0) {
    damage.push_back(fmt::format("{}: {} of {} records lie outside the file, dropped", kTableNames[id], missing, count));
  }
  return copy;
}

TableCopy read_blocks(const Source& source, const HeaderCopy& header, std::vector<std::string>& damage) {
  // A block is whole if its serial was the same before and after its bytes were copied. Three passes over the table give
  // before, copy and after without depending on the order in which the kernel copies a record's bytes.
  std::vector<std::string> said_already;
  const TableCopy before = read_table(source, header, format::kBlocks, sizeof(format::Block), damage);
  TableCopy copy = read_table(source, header, format::kBlocks, sizeof(format::Block), said_already);
  const TableCopy after = read_table(source, header, format::kBlocks, sizeof(format::Block), said_already);

  for (size_t i = 0; i < copy.count(); ++i) {
    auto serial = [i](const TableCopy& pass) { return pass.at<format::Block>(i).serial.load(std::memory_order_relaxed); };
    bool whole = serial(before) == serial(copy) && serial(copy) == serial(after);
    if (!whole) std::memset(copy.bytes.data() + i * sizeof(format::Block), 0, sizeof(format::Block));
  }
  return copy;
}

std::string Strings::get(uint32_t id) {
  if (id == 0) return {};
  format::StringHeader head;
  uint64_t size = table_.bytes.size();
  bool ok = id + sizeof(head) <= size;
  if (ok) {
    std::memcpy(&head, table_.bytes.data() + id, sizeof(head));
    ok = head.length <= size - id - sizeof(head) && head.length <= budget_;
  }
  if (!ok) {
    ++bad_;
    return {};
  }
  budget_ -= head.length;
  return {reinterpret_cast<const char*>(table_.bytes.data()) + id + sizeof(head), head.length};
}

std::vector<std::string> Strings::list(uint32_t id) {
  std::vector<std::string> items;
  const std::string all = get(id);
  for (size_t begin = 0; begin < all.size();) {
    size_t end = std::min(all.find('\0', begin), all.size());
    items.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

}  // namespace vramtrack::reader

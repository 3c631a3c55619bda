// The capture file as its writer sees it: created, mapped, grown. The only part of the library that knows a file.
//
// Addresses are stable: a large range is reserved once, and the file's extents are mapped into it one after the other, so
// offset + base is the record for the life of the process. Blocks of the file are allocated on disk before they are mapped;
// a full disk is a failed growth, never a SIGBUS. One descriptor is kept, out of the way of the program's, since the file may not
// be opened again later (no descriptors left, root privileges dropped). The program may close it and get its number for a file
// of its own: growing checks that it still is our file, and opens that by its path if not.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "interpose/capture_format.h"
#include "interpose/lock.h"

namespace vramtrack {

// Which file a descriptor led to.
struct OpenFile {
  int fd;
  uint64_t device, inode;
};
// True while it still leads there: the program may have closed it, and got its number for a file of its own.
bool is_still_open(const OpenFile&);

// The first chunk of a table holds 1 << first_chunk_shift records; chunk k twice as many as chunk k - 1.
struct TableShape {
  uint32_t record_size, first_chunk_shift;
};

// A program with one allocation makes a file of these first chunks: about half a megabyte.
inline constexpr TableShape kShapes[format::kTableCount] = {
    {1, 16},                         // kStrings
    {sizeof(format::Module), 6},     // kModules
    {sizeof(format::Frame), 11},     // kFrames
    {sizeof(format::StackNode), 13}, // kStacks
    {sizeof(format::Space), 2},      // kSpaces
    {sizeof(format::Site), 8},       // kSites
    {sizeof(format::Curve), 8},      // kCurves
    {sizeof(format::Block), 10},     // kBlocks
    {sizeof(format::Incident), 4},   // kIncidents
    {sizeof(format::Pool), 1},       // kPools
    {sizeof(format::Stream), 4},     // kStreams
};

struct CaptureFile {
  char* base;
  format::Header* header;
  Lock lock;                 // growth and appends
  uint64_t reserved_bytes;   // of address space
  uint64_t used_bytes;       // of the file, and mapped
  OpenFile open;
  std::atomic<bool> stopped;
  format::StopReason failure;  // why creating or growing failed
  int failure_errno;
  char path[4096];           // absolute
  // Where chunks are mapped: the header's offsets as addresses. Written before the count that makes their records known.
  char* chunks[format::kTableCount][format::kMaxChunks];
};

// Creates `path` (0600, must not exist, no link is followed) with an empty header and the first chunk of every table.
// False: nothing was created; `failure` and `failure_errno` say why (errno EEXIST: take another name).
bool create_capture_file(CaptureFile&, const char* path);

// Chunk 0 holds records [0, n), chunk 1 [n, 3n), chunk 2 [3n, 7n), ...
struct RecordPlace {
  uint32_t chunk;
  uint64_t index;  // in the chunk
};
inline RecordPlace place_of(format::TableId table, uint64_t index) {
  const uint32_t shift = kShapes[table].first_chunk_shift;
  const uint64_t scaled = (index >> shift) + 1;
  const uint32_t chunk = 63 - static_cast<uint32_t>(std::countl_zero(scaled));
  return {chunk, index - (((1ull << chunk) - 1) << shift)};
}

// The record `index` of a table; it must have been appended.
inline void* record_at(const CaptureFile& file, format::TableId table, uint64_t index) {
  const RecordPlace place = place_of(table, index);
  return file.chunks[table][place.chunk] + place.index * kShapes[table].record_size;
}
template <class Record>
Record& record(const CaptureFile& file, format::TableId table, uint64_t index) {
  return *static_cast<Record*>(record_at(file, table, index));
}

// A copy of `record` at the table's end, published. Returns its index; 0 when the file cannot grow (recording has stopped).
uint32_t append(CaptureFile&, format::TableId, const void* record);

// `count` zeroed records at the table's end, published as such (for tables whose records carry their own mark of being
// written). Returns the first index; 0 as above.
uint32_t append_empty(CaptureFile&, format::TableId, uint32_t count);

// `size` contiguous bytes of the string table. Returns the first index; 0 as above.
uint32_t append_bytes(CaptureFile&, uint32_t size);

// Recording ends for good, with the reason in the capture. The program goes on.
void stop_capture(CaptureFile&, format::StopReason, int error);

}  // namespace vramtrack

// What a capture file says: reads it into a Heap.
//
// The file is untrusted. Every offset, count, index and length is checked; time and memory are bounded by the file's size.
// Damage is data: what cannot be read is dropped and named in Heap::damage. Only a file that is no capture of a known version
// is an error. A file whose process still runs is read as it is at the moment.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "report/heap.h"

namespace vramtrack {

struct ReadError {
  std::string message;  // "FILE: what: why", one line
};

std::variant<Heap, ReadError> read_capture(const std::string& path);

// The same from memory; `name` stands for the file in messages. The bytes may be written to while they are read.
std::variant<Heap, ReadError> read_capture(std::span<const std::byte> bytes, const std::string& name);

// How a process ended, as its parent saw it.
struct ProcessEnd {
  bool by_signal = false;
  int code = 0;  // exit code or signal
};

// Writes `end` into the capture at `path`, unless it knows its end already. False: it is not the capture of process `pid` and
// of run `run_id`, or cannot be written.
bool write_process_end(const std::string& path, int pid, uint64_t run_id, ProcessEnd end);

}  // namespace vramtrack

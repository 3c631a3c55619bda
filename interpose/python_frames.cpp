// Walks the calling thread's Python frames and gives each its id in the capture.
#include "interpose/python_frames.h"

#include "interpose/python_chain.h"
#include "interpose/python_offsets.h"

#include <utility>

namespace vramtrack {
namespace {

inline uint64_t rotated(uint64_t value, uint32_t bits) { return value << bits | value >> (64 - bits); }

// A short line table counts as a whole: one-line sources run by exec differ in nothing else. Of a long one the first and the
// last eight bytes stand for it, since its hash is not known. A word may take in some of the header or padding, which do no
// harm: the data begin on a multiple of eight, so that every word that holds a byte of them can be read.
inline uint64_t table_content(const PythonLayout& layout, uintptr_t line_table) {
  constexpr uint64_t kShort = 40;
  const uint64_t size = python_field<uint64_t>(line_table, layout.bytes_size);
  const uintptr_t bytes = line_table + layout.bytes_data;
  uint64_t content = size + python_field<uint64_t>(bytes, 0) + rotated(python_field<uint64_t>(bytes + size - 8, 0), 29);
  if (size <= kShort)
    for (uint64_t at = 8; at + 8 < size; at += 8) content = rotated(content, 7) + python_field<uint64_t>(bytes + at, 0);
  return content;
}

// Before 3.12 a code object is known by the addresses of its strings and tables and, as these are used again too, by their
// content. The hash of a string is computed when it is interned, as names and file names of code objects are.
inline uint64_t identity_by_content(const PythonLayout& layout, uintptr_t code, uintptr_t file) {
  const uintptr_t name = python_field<uintptr_t>(code, layout.code_name);
  const uintptr_t line_table = python_field<uintptr_t>(code, layout.code_line_table);
  const uint64_t addresses = name + rotated(file, 21) + rotated(line_table, 42);
  const uint64_t strings = python_field<uint64_t>(name, layout.string_hash) +
                           rotated(python_field<uint64_t>(file, layout.string_hash), 32);
  const uint64_t first_line = python_field<uint32_t>(code, layout.code_first_line);
  return addresses + strings + rotated(table_content(layout, line_table) + first_line, 11);
}

// The file is part of it in any case: importlib may set another one after a code object was made.
[[gnu::always_inline]] inline uint64_t identity_of(const PythonLayout& layout, uintptr_t code) {
  const uintptr_t file = python_field<uintptr_t>(code, layout.code_filename);
  if (layout.code_version != kNoOffset) {
    const uint64_t version = python_field<uint32_t>(code, layout.code_version);
    if (version != 0) return file + rotated(version, 32);
  }
  return identity_by_content(layout, code, file);
}

PythonFrameCache::Entry& slot_of(PythonFrameCache& cache, uintptr_t code, uint64_t instruction) {
  constexpr uint32_t kBits = __builtin_ctz(PythonFrameCache::kEntries);
  static_assert(PythonFrameCache::kEntries == 1u << kBits);
  return cache.entries[(code + instruction * 8) * 0x9e3779b97f4a7c15u >> (64 - kBits)];
}

// The slow path: decodes the frame and remembers it. 0: it is none that Python would show, or could not be recorded.
[[gnu::noinline]] uint32_t learn_frame(const PythonInterpreter& python, PythonFrameCache::Entry& entry, Interner& interner,
                                       uintptr_t frame, uintptr_t code, uint64_t instruction) {
  const PythonLayout& layout = python.layout;
  if (!plausible_object(code) || python_field<uintptr_t>(code, layout.object_type) != python.code_type) return 0;
  if (!plausible_object(python_field<uintptr_t>(code, layout.code_name)) ||
      !plausible_object(python_field<uintptr_t>(code, layout.code_filename)) ||
      !plausible_object(python_field<uintptr_t>(code, layout.code_line_table))) {
    return 0;
  }
  if (!frame_is_complete(layout, frame, code, instruction)) return 0;
  const PythonLocation location = read_python_location(layout, code, instruction);
  const uint32_t id =
      intern_python_frame(interner, location.function(), location.file(), location.line, location.first_line);
  if (id != 0) entry = {code, instruction, identity_of(layout, code), id};
  return id;
}

// One read of a chain, apart from its layout.
struct ChainReader {
  const PythonInterpreter& python;
  PythonFrameCache& cache;
  Interner& interner;
  uint32_t* frame_ids;
  uint32_t max;
  bool* truncated;
};

[[gnu::always_inline]] inline uint32_t frame_id(const ChainReader& reader, const PythonLayout& layout, uintptr_t frame) {
  const uintptr_t code = frame_code(layout, frame);
  const uint64_t instruction = frame_instruction(layout, frame);
  PythonFrameCache::Entry& entry = slot_of(reader.cache, code, instruction);
  // `code` is followed only where it equals one that was found sound before.
  if (entry.code == code && entry.instruction == instruction && code != 0 && entry.identity == identity_of(layout, code)) {
    return entry.frame_id;
  }
  return learn_frame(reader.python, entry, reader.interner, frame, code, instruction);
}

[[gnu::always_inline]] inline uint32_t read_chain(const ChainReader& reader, const PythonLayout& layout,
                                                  uintptr_t thread_state) {
  uint32_t count = 0;
  // A shim stands before at least one function, but for the ones just being entered: the bound only stops a damaged chain.
  uint32_t steps_left = 2 * reader.max + 64;
  for (uintptr_t frame = innermost_frame(layout, thread_state); plausible_object(frame) && steps_left != 0;
       frame = previous_frame(layout, frame), --steps_left) {
    if (frame_owner(layout, frame) >= kFirstShimOwner) continue;
    const uint32_t id = frame_id(reader, layout, frame);
    if (id == 0) continue;
    if (count == reader.max) {
      *reader.truncated = true;
      break;
    }
    reader.frame_ids[count++] = id;
  }
  return count;
}

// The same loop is compiled once for each known layout, with its offsets as constants, which makes it a third faster, and once
// for a layout known only at run time.
using ReadChain = uint32_t (*)(const ChainReader&, uintptr_t thread_state);

uint32_t read_chain_of_any_layout(const ChainReader& reader, uintptr_t thread_state) {
  return read_chain(reader, reader.python.layout, thread_state);
}

template <uint32_t kIndex>
uint32_t read_chain_of_known_layout(const ChainReader& reader, uintptr_t thread_state) {
  return read_chain(reader, kPythonLayouts[kIndex], thread_state);
}

template <uint32_t... kIndices>
ReadChain chain_reader(uint32_t index, std::integer_sequence<uint32_t, kIndices...>) {
  static constexpr ReadChain kReaders[] = {read_chain_of_known_layout<kIndices>...};
  return index < kPythonLayoutCount ? kReaders[index] : read_chain_of_any_layout;
}

}  // namespace

uint32_t read_python_frames(const PythonInterpreter& python, PythonFrameCache& cache, Interner& interner,
                            uint32_t* frame_ids, uint32_t max, bool* truncated) {
  *truncated = false;
  if (python.state != format::PythonState::kReading || python_is_finalizing(python)) return 0;
  const uintptr_t thread_state = reinterpret_cast<uintptr_t>(python.this_thread_state());
  if (!plausible_object(thread_state)) return 0;
  const ReadChain read = chain_reader(python.layout_index, std::make_integer_sequence<uint32_t, kPythonLayoutCount>());
  return read({python, cache, interner, frame_ids, max, truncated}, thread_state);
}

}  // namespace vramtrack

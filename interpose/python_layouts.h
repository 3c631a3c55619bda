// Where do the fields that lead from a thread state to a line of Python lie, in each version of CPython?
//
// The offsets are those of 64-bit release builds, taken with offsetof from each version's own headers. From 3.13 on the
// interpreter publishes most of them (_Py_DebugOffsets, made for outside readers); what it publishes replaces ours.
#pragma once

#include <cstdint>

namespace vramtrack {

// How a version tells which instruction a frame is at, and how a code object tells the line of an instruction.
enum class LineTable : uint8_t {
  kLnotab,     // 3.8, 3.9: pairs of (address, line) increments
  kRanges,     // 3.10: PEP 626, pairs of (length, line increment)
  kLocations,  // 3.11 and later: PEP 657, variable-length entries
};

// All fields but the last ones are byte offsets. kNoOffset: this version has no such field.
inline constexpr uint16_t kNoOffset = 0xffff;

struct PythonLayout {
  uint16_t version;  // 0x030c for 3.12

  uint16_t tstate_frame;   // thread state -> innermost frame; through the C frame where there is one
  uint16_t cframe_frame;   // 3.11, 3.12: C frame -> innermost frame
  uint16_t frame_previous;
  uint16_t frame_code;
  uint16_t frame_instruction;  // f_lasti (int) up to 3.10, a pointer to the instruction later
  uint16_t frame_owner;        // byte

  uint16_t code_filename, code_name;  // code_name: co_qualname where it exists
  uint16_t code_first_line;
  uint16_t code_line_table;
  uint16_t code_version;  // 3.12 and later: a number of its own for each code object; 0 once 2^32 were made
  uint16_t code_first_traceable;  // int, in instructions; a frame that has not come so far is not complete
  uint16_t code_start;            // of the instructions

  uint16_t object_type;
  uint16_t string_length, string_hash, string_state;
  uint16_t string_ascii_data, string_compact_data;  // characters follow these headers
  uint16_t string_legacy_data;                      // pointer to the characters
  uint16_t bytes_size, bytes_data;

  LineTable line_table;
  uint8_t lasti_scale;  // up to 3.10: bytes per unit of f_lasti

  constexpr bool has_instruction_pointer() const { return code_start != kNoOffset; }
  constexpr bool operator==(const PythonLayout&) const = default;
};

// False: this version is not known. Nothing is guessed.
bool find_python_layout(uint32_t version_hex, bool free_threaded, PythonLayout& layout);

// Takes over what the interpreter publishes in `_PyRuntime` (3.13 and later; true and no change before). False: what it
// publishes is not what this version is known to publish, or no offset could be it.
bool adopt_published_offsets(const void* runtime, uint32_t version_hex, bool free_threaded, PythonLayout& layout);

}  // namespace vramtrack

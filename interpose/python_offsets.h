// The offsets of each version of CPython.
//
// Constants, so that the reader of each version is compiled with them: see python_frames.cpp.
#pragma once

#include "interpose/python_layouts.h"

namespace vramtrack {

constexpr PythonLayout with_frame_objects(uint16_t version, uint16_t lasti, LineTable table, uint8_t lasti_scale) {
  PythonLayout l = {};
  l.version = version;
  l.tstate_frame = 24;
  l.cframe_frame = kNoOffset;
  l.frame_previous = 24;
  l.frame_code = 32;
  l.frame_instruction = lasti;
  l.frame_owner = kNoOffset;
  l.code_filename = 104;
  l.code_name = 112;
  l.code_first_line = 40;
  l.code_line_table = 120;
  l.code_version = kNoOffset;
  l.code_first_traceable = kNoOffset;
  l.code_start = kNoOffset;
  l.object_type = 8;
  l.string_length = 16;
  l.string_hash = 24;
  l.string_state = 32;
  l.string_ascii_data = 48;
  l.string_compact_data = 72;
  l.string_legacy_data = 72;
  l.bytes_size = 16;
  l.bytes_data = 32;
  l.line_table = table;
  l.lasti_scale = lasti_scale;
  return l;
}

constexpr PythonLayout python_3_11() {
  PythonLayout l = with_frame_objects(0x030b, 56, LineTable::kLocations, 0);
  l.tstate_frame = 56;
  l.cframe_frame = 8;
  l.frame_previous = 48;
  l.frame_owner = 69;
  l.code_filename = 112;
  l.code_name = 128;
  l.code_line_table = 136;
  l.code_first_line = 72;
  l.code_first_traceable = 168;
  l.code_start = 184;
  return l;
}

constexpr PythonLayout python_3_12() {
  PythonLayout l = python_3_11();
  l.version = 0x030c;
  l.cframe_frame = 0;
  l.frame_previous = 8;
  l.frame_code = 0;
  l.frame_owner = 70;
  l.code_first_line = 68;
  l.code_version = 92;
  l.code_first_traceable = 176;
  l.code_start = 192;
  l.string_ascii_data = 40;  // the wchar_t form of strings went away
  l.string_compact_data = 56;
  l.string_legacy_data = 56;
  return l;
}

constexpr PythonLayout python_3_13() {
  PythonLayout l = python_3_12();
  l.version = 0x030d;
  l.tstate_frame = 72;
  l.cframe_frame = kNoOffset;
  l.code_first_traceable = 184;
  l.code_start = 200;
  return l;
}

constexpr PythonLayout python_3_14() {
  PythonLayout l = python_3_13();
  l.version = 0x030e;
  l.frame_owner = 74;
  l.code_first_traceable = 192;
  l.code_start = 208;
  return l;
}

// Free-threaded builds have an object header of 32 bytes instead of 16.
constexpr PythonLayout python_3_13_free_threaded() {
  PythonLayout l = python_3_13();
  l.code_filename = 128;
  l.code_name = 144;
  l.code_line_table = 152;
  l.code_first_line = 84;
  l.code_version = 108;
  l.code_first_traceable = 200;
  l.code_start = 216;
  l.object_type = 24;
  l.string_length = 32;
  l.string_hash = 40;
  l.string_state = 48;
  l.string_ascii_data = 56;
  l.string_compact_data = 72;
  l.string_legacy_data = 72;
  l.bytes_size = 32;
  l.bytes_data = 48;
  return l;
}

inline constexpr PythonLayout kPythonLayouts[] = {
    with_frame_objects(0x0308, 104, LineTable::kLnotab, 1),
    with_frame_objects(0x0309, 104, LineTable::kLnotab, 1),
    with_frame_objects(0x030a, 96, LineTable::kRanges, 2),
    python_3_11(),
    python_3_12(),
    python_3_13(),
    python_3_14(),
};
inline constexpr uint32_t kPythonLayoutCount = sizeof kPythonLayouts / sizeof kPythonLayouts[0];
inline constexpr PythonLayout kPython313FreeThreaded = python_3_13_free_threaded();

}  // namespace vramtrack

// Decoding of line tables and strings of CPython 3.8 to 3.14.
#include "interpose/python_code.h"

namespace vramtrack {
namespace {

// 3.8 and 3.9, Objects/lnotab_notes.txt: increments apply until the address is passed.
int32_t line_from_lnotab(const uint8_t* table, uint64_t size, int32_t line, int64_t offset) {
  int64_t address = 0;
  for (uint64_t i = 0; i + 1 < size; i += 2) {
    address += table[i];
    if (address > offset) break;
    line += static_cast<int8_t>(table[i + 1]);
  }
  return line;
}

// 3.10, Objects/lnotab_notes.txt: each pair covers a range; an increment of -128 means that the range has no line.
int32_t line_from_ranges(const uint8_t* table, uint64_t size, int32_t line, int64_t offset) {
  if (offset < 0) return line;
  int64_t end = 0;
  for (uint64_t i = 0; i + 1 < size; i += 2) {
    const int8_t increment = static_cast<int8_t>(table[i + 1]);
    if (increment != -128) line += increment;
    end += table[i];
    if (offset < end) return increment == -128 ? 0 : line;
  }
  return 0;
}

// A variable-length number of the location table: six bits a byte, the lowest first, bit 6 says that more follow; bit 0 of the
// number is its sign.
int32_t signed_varint(const uint8_t* at, const uint8_t* end) {
  uint32_t value = 0;
  for (uint32_t shift = 0; at < end && shift < 32; shift += 6) {
    value |= static_cast<uint32_t>(*at & 63) << shift;
    if ((*at++ & 64) == 0) break;
  }
  const int32_t magnitude = static_cast<int32_t>(value >> 1);
  return (value & 1) != 0 ? -magnitude : magnitude;
}

// 3.11 and later, Objects/locations.md: an entry starts with a byte whose bit 7 is set: 4 bits of code, 3 bits of length.
int32_t line_from_locations(const uint8_t* table, uint64_t size, int32_t line, int64_t offset) {
  enum : uint32_t { kOneLine0 = 10, kOneLine1, kOneLine2, kNoColumns, kLong, kNoLocation };
  if (offset < 0) return line;
  const uint8_t* const table_end = table + size;
  int64_t end = 0;
  for (const uint8_t* at = table; at < table_end;) {
    const uint32_t code = (*at >> 3) & 15;
    if (code == kOneLine1 || code == kOneLine2) line += static_cast<int32_t>(code - kOneLine0);
    if (code == kNoColumns || code == kLong) line += signed_varint(at + 1, table_end);
    end += ((*at & 7) + 1) * 2;
    if (offset < end) return code == kNoLocation ? 0 : line;
    do ++at;
    while (at < table_end && (*at & 128) == 0);
  }
  return 0;
}

// Appends one code point as UTF-8. Lone surrogates (undecodable bytes of a path) become U+FFFD: the reader's text stays valid.
uint32_t put_utf8(char* out, uint32_t code_point) {
  if (code_point > 0x10ffff || (code_point >= 0xd800 && code_point < 0xe000)) code_point = 0xfffd;
  const auto continuation = [code_point](uint32_t shift) { return static_cast<char>(0x80 | ((code_point >> shift) & 63)); };
  if (code_point < 0x80) {
    out[0] = static_cast<char>(code_point);
    return 1;
  }
  if (code_point < 0x800) {
    out[0] = static_cast<char>(0xc0 | (code_point >> 6));
    out[1] = continuation(0);
    return 2;
  }
  if (code_point < 0x10000) {
    out[0] = static_cast<char>(0xe0 | (code_point >> 12));
    out[1] = continuation(6);
    out[2] = continuation(0);
    return 3;
  }
  out[0] = static_cast<char>(0xf0 | (code_point >> 18));
  out[1] = continuation(12);
  out[2] = continuation(6);
  out[3] = continuation(0);
  return 4;
}

struct Characters {
  const void* data;
  uint64_t count;
  uint32_t width;  // bytes: 1, 2 or 4; 0 = not a string that can be read
};

Characters characters_of(const PythonLayout& layout, uintptr_t string) {
  if (!plausible_object(string)) return {};
  uint32_t state = python_field<uint32_t>(string, layout.string_state);
  // kind (3 bits), compact, ascii follow the interning state, which had 2 bits and was widened to 16 during 3.14. The kind is
  // never 0, and the wide form leaves these bits 0: they tell the two forms apart.
  state = ((state >> 2) & 7) != 0 ? state >> 2 : state >> 16;
  const uint32_t kind = state & 7;
  const bool compact = (state & 8) != 0, ascii = (state & 16) != 0;
  if (kind != 1 && kind != 2 && kind != 4) return {};

  const uint64_t count = python_field<uint64_t>(string, layout.string_length);
  uintptr_t data = string + (ascii ? layout.string_ascii_data : layout.string_compact_data);
  if (!compact) data = python_field<uintptr_t>(string, layout.string_legacy_data);
  if (data == 0) return {};
  return {reinterpret_cast<const void*>(data), count, kind};
}

uint32_t character(const Characters& text, uint64_t index) {
  if (text.width == 1) return static_cast<const uint8_t*>(text.data)[index];
  if (text.width == 2) return static_cast<const uint16_t*>(text.data)[index];
  return static_cast<const uint32_t*>(text.data)[index];
}

uint32_t read_text(const PythonLayout& layout, uintptr_t string, bool keep_end, char (&out)[kMaxPythonText]) {
  const Characters text = characters_of(layout, string);
  if (text.width == 0) {
    out[0] = '?';
    return 1;
  }
  const uint64_t capacity = kMaxPythonText / (text.width == 1 ? 2 : 4);  // in characters of the longest UTF-8 form
  const uint64_t count = text.count < capacity ? text.count : capacity;
  const uint64_t first = keep_end ? text.count - count : 0;
  uint32_t size = 0;
  for (uint64_t i = first; i < first + count; ++i) size += put_utf8(out + size, character(text, i));
  return size;
}

}  // namespace

uint32_t python_line(LineTable kind, const uint8_t* table, uint64_t table_size, int32_t first_line, int64_t offset) {
  int32_t line = 0;
  switch (kind) {
    case LineTable::kLnotab: line = line_from_lnotab(table, table_size, first_line, offset); break;
    case LineTable::kRanges: line = line_from_ranges(table, table_size, first_line, offset); break;
    case LineTable::kLocations: line = line_from_locations(table, table_size, first_line, offset); break;
  }
  return line > 0 ? static_cast<uint32_t>(line) : 0;
}

PythonLocation read_python_location(const PythonLayout& layout, uintptr_t code, uint64_t instruction) {
  PythonLocation location;
  location.function_size =
      read_text(layout, python_field<uintptr_t>(code, layout.code_name), false, location.function_text);
  location.file_size = read_text(layout, python_field<uintptr_t>(code, layout.code_filename), true, location.file_text);

  const int32_t first_line = python_field<int32_t>(code, layout.code_first_line);
  location.first_line = first_line > 0 ? static_cast<uint32_t>(first_line) : 0;
  const uintptr_t table = python_field<uintptr_t>(code, layout.code_line_table);
  location.line = 0;
  if (!plausible_object(table)) return location;
  const int64_t offset = layout.has_instruction_pointer()
                             ? static_cast<int64_t>(instruction - (code + layout.code_start))
                             : static_cast<int64_t>(static_cast<int32_t>(instruction)) * layout.lasti_scale;
  location.line = python_line(layout.line_table, reinterpret_cast<const uint8_t*>(table + layout.bytes_data),
                              python_field<uint64_t>(table, layout.bytes_size), first_line, offset);
  return location;
}

}  // namespace vramtrack

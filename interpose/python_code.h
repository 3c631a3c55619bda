// What do a code object and an instruction of it say: which function, which file, which line?
//
// Reads the interpreter's objects as memory. The caller runs on a thread whose live frame holds the code object, so the
// object, its strings and its line table stay alive and unchanged meanwhile. Nothing of Python is called, no lock is needed.
#pragma once

#include "interpose/python_layouts.h"

#include <cstdint>
#include <string_view>

namespace vramtrack {

// A field of an interpreter's object.
template <typename T>
inline T python_field(uintptr_t object, uint16_t offset) {
  T value;
  __builtin_memcpy(&value, reinterpret_cast<const void*>(object + offset), sizeof value);
  return value;
}

// Objects are aligned to 8 and never lie in the first page or beyond user space.
inline bool plausible_object(uintptr_t object) {
  return object >= 4096 && object < (uintptr_t{1} << 56) && (object & 7) == 0;
}

// Text of at most this many bytes is kept; what is longer loses its end (functions) or its beginning (paths).
inline constexpr uint32_t kMaxPythonText = 1024;

struct PythonLocation {
  char function_text[kMaxPythonText];
  char file_text[kMaxPythonText];
  uint32_t function_size, file_size;  // bytes of UTF-8
  uint32_t line;                      // 0 = this instruction has none
  uint32_t first_line;

  std::string_view function() const { return {function_text, function_size}; }
  std::string_view file() const { return {file_text, file_size}; }
};

// `instruction`: a pointer into the code from 3.11 on, f_lasti before.
PythonLocation read_python_location(const PythonLayout&, uintptr_t code, uint64_t instruction);

// The line of the instruction `offset` bytes into the code; 0 = none.
uint32_t python_line(LineTable, const uint8_t* table, uint64_t table_size, int32_t first_line, int64_t offset);

}  // namespace vramtrack

// Which table fits this interpreter, and how the offsets that it publishes are taken over.
#include "interpose/python_offsets.h"

#include <cstring>

namespace vramtrack {
namespace {

// The words of _Py_DebugOffsets that are read, as indices of 64-bit words from its start. Each minor version has its own
// structure: the interpreter's part has 13 words in 3.13 and 16 in 3.14, which moves all that follows.
struct PublishedWords {
  uint16_t version;  // of Python
  uint8_t tstate_frame, frame_previous, frame_code, frame_instruction, frame_owner;
  uint8_t code_filename, code_qualname, code_line_table, code_first_line, code_start;
};
constexpr uint32_t kVersionWord = 1, kFreeThreadedWord = 2;
constexpr PublishedWords kPublished[] = {
    {0x030d, 23, 29, 30, 31, 33, 35, 37, 38, 39, 43},
    {0x030e, 26, 32, 33, 34, 36, 40, 42, 43, 44, 48},
};

// No field that is read lies further from the start of its structure.
constexpr uint64_t kLargestOffset = 512;

struct Adopted {
  uint8_t word;
  uint16_t PythonLayout::*field;
  uint8_t alignment;
};

}  // namespace

bool find_python_layout(uint32_t version_hex, bool free_threaded, PythonLayout& layout) {
  const uint32_t version = version_hex >> 16;
  if (free_threaded) {
    // 3.14's free-threaded build runs a copy of the bytecode per thread; its instruction pointers are not in the code object.
    if (version != kPython313FreeThreaded.version) return false;
    layout = kPython313FreeThreaded;
    return true;
  }
  for (const PythonLayout& known : kPythonLayouts) {
    if (known.version != version) continue;
    layout = known;
    return true;
  }
  return false;
}

bool adopt_published_offsets(const void* runtime, uint32_t version_hex, bool free_threaded, PythonLayout& layout) {
  const PublishedWords* published = nullptr;
  for (const PublishedWords& known : kPublished) {
    if (known.version == layout.version) published = &known;
  }
  if (published == nullptr) return true;
  if (runtime == nullptr || memcmp(runtime, "xdebugpy", 8) != 0) return false;
  const uint64_t* words = static_cast<const uint64_t*>(runtime);
  if (words[kVersionWord] != version_hex || (words[kFreeThreadedWord] != 0) != free_threaded) return false;

  const Adopted adopted[] = {
      {published->tstate_frame, &PythonLayout::tstate_frame, 8},
      {published->frame_previous, &PythonLayout::frame_previous, 8},
      {published->frame_code, &PythonLayout::frame_code, 8},
      {published->frame_instruction, &PythonLayout::frame_instruction, 8},
      {published->frame_owner, &PythonLayout::frame_owner, 1},
      {published->code_filename, &PythonLayout::code_filename, 8},
      {published->code_qualname, &PythonLayout::code_name, 8},
      {published->code_line_table, &PythonLayout::code_line_table, 8},
      {published->code_first_line, &PythonLayout::code_first_line, 4},
      {published->code_start, &PythonLayout::code_start, 2},
  };
  for (const Adopted& one : adopted) {
    const uint64_t offset = words[one.word];
    if (offset > kLargestOffset || offset % one.alignment != 0) return false;
  }
  for (const Adopted& one : adopted) layout.*one.field = static_cast<uint16_t>(words[one.word]);
  return true;
}

}  // namespace vramtrack

// How does one get from a thread to its Python frames, and from frame to frame?
//
// Shared by the reader (python_frames.cpp) and its self check (python_check.cpp). Memory of live frames is trusted.
#pragma once

#include "interpose/python_code.h"
#include "interpose/python_layouts.h"

#include <cstdint>

namespace vramtrack {

// Owners from this one on are entries of the C stack or the interpreter, not functions (3.12 and later).
inline constexpr uint8_t kFirstShimOwner = 3;
inline constexpr uint8_t kOwnedByGenerator = 1;

inline uintptr_t innermost_frame(const PythonLayout& layout, uintptr_t thread_state) {
  const uintptr_t frame = python_field<uintptr_t>(thread_state, layout.tstate_frame);
  if (layout.cframe_frame == kNoOffset) return frame;
  return plausible_object(frame) ? python_field<uintptr_t>(frame, layout.cframe_frame) : 0;
}

inline uintptr_t previous_frame(const PythonLayout& layout, uintptr_t frame) {
  return python_field<uintptr_t>(frame, layout.frame_previous);
}

inline uint8_t frame_owner(const PythonLayout& layout, uintptr_t frame) {
  return layout.frame_owner == kNoOffset ? 0 : python_field<uint8_t>(frame, layout.frame_owner);
}

// 3.14 tags references in their low bits.
inline uintptr_t frame_code(const PythonLayout& layout, uintptr_t frame) {
  return python_field<uintptr_t>(frame, layout.frame_code) & ~uintptr_t{7};
}

inline uint64_t frame_instruction(const PythonLayout& layout, uintptr_t frame) {
  return layout.has_instruction_pointer() ? python_field<uint64_t>(frame, layout.frame_instruction)
                                          : python_field<uint32_t>(frame, layout.frame_instruction);
}

// A function whose frame is still being set up is not shown by Python either. Generators are complete from the start.
inline bool frame_is_complete(const PythonLayout& layout, uintptr_t frame, uintptr_t code, uint64_t instruction) {
  if (layout.code_first_traceable == kNoOffset || frame_owner(layout, frame) == kOwnedByGenerator) return true;
  const int64_t first = python_field<int32_t>(code, layout.code_first_traceable);
  return static_cast<int64_t>(instruction - (code + layout.code_start)) >= first * 2;
}

}  // namespace vramtrack

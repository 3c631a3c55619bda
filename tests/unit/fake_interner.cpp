// See fake_interner.h.
#include "tests/unit/fake_interner.h"

namespace vramtrack {

uint32_t Interner::intern(FakeFrame frame) {
  const std::lock_guard lock(mutex);
  ++calls;
  const auto [place, is_new] = ids.try_emplace(frame, static_cast<uint32_t>(frames.size()));
  if (is_new) frames.push_back(std::move(frame));
  return place->second;
}

FakeFrame Interner::frame(uint32_t id) {
  const std::lock_guard lock(mutex);
  return frames.at(id);
}

uint32_t intern_python_frame(Interner& interner, std::string_view function, std::string_view file, uint32_t line,
                             uint32_t first_line) {
  return interner.intern({std::string(function), std::string(file), line, first_line, 0});
}

uint32_t intern_native_frame(Interner& interner, uintptr_t return_address) {
  return interner.intern({{}, {}, 0, 0, return_address});
}

uint32_t intern_marker_frame(Interner& interner, std::string_view name) {
  return interner.intern({std::string(name), {}, 0, 0, 0});
}

uint32_t module_generation(const Interner& interner) { return interner.generation; }

}  // namespace vramtrack

// The wrappers of libraries' functions that make and destroy handles, by the order of hooks.def; see library_hooks.cpp.
#pragma once

#include <string_view>

#include "interpose/capture_format.h"

namespace vramtrack {

enum class LibraryFunction : uint16_t {
#define LIBRARY_HOOK(kind, name, count, parameters, arguments) name,
#define LIBRARY_END_HOOK(kind, name, parameters) name,
#include "interpose/hooks.def"
  kCount
};

struct LibraryWrapper {
  format::Kind kind;
  void* function;
};
extern const LibraryWrapper kLibraryWrappers[static_cast<unsigned>(LibraryFunction::kCount)];

// How the file name of the library whose handles are of this kind begins.
std::string_view library_of(format::Kind);

}  // namespace vramtrack

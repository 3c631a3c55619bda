// Whose code is it: which frames of a stack are the user's own, and what a framework's block is for.
//
// Both are decided by names alone (files of Python frames, modules and functions of native ones), so they work on a capture
// from another machine. A name that no rule knows is the user's; a block that no rule knows is "other".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/heap.h"

namespace vramtrack {

// Not the standard library, a package, the interpreter, a framework, the CUDA libraries, or the system's.
bool is_user_frame(const Heap&, const Frame&);

// The lines of a frame that are the user's, innermost first; its address in the object, where there are no names.
std::vector<Location> user_locations(const Heap&, const Frame&);

// Whether one line of a frame is: what the standard library's headers inlined into the user's function is not the user's.
bool is_user_location(const Heap&, const Frame&, const Location&);

// The line a person would look at: the innermost user line, Python before native, known lines before bare functions.
std::optional<Location> user_line(const Heap&, const Stack&);

// A Python file of PyTorch's, below the folder `inside` of it ("" = anywhere).
bool in_torch(std::string_view file, std::string_view inside);

// The library a frame belongs to, for frames that are not the user's: "torch", "python", "numpy", "libcudart".
std::string owner(const Heap&, const Frame&);

// "parameter", "gradient", "optimizer state", "activation", "input", "temporary", "workspace" or "other" for a block of
// PyTorch; "" for a block of another layer.
std::string_view category(const Heap&, const Site&);

// What those blocks of a site are that live on: a site whose blocks mostly die within a step keeps the others for longer.
std::string_view category_of_kept(const Heap&, const Site&);

// The phase a stack was taken in, as far as its frames tell.
enum class Phase : uint8_t { kUnknown, kForward, kBackward, kOptimizer, kConstruction, kLoading };
Phase phase(const Heap&, const Stack&);

}  // namespace vramtrack

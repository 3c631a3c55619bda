// Whose code is it: which frames of a stack are the user's own, and what a framework's block is for.
#include "report/categories.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "report/words.h"

namespace vramtrack {
namespace {

bool starts_with_any(std::string_view text, std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [text](std::string_view prefix) { return text.starts_with(prefix); });
}

// "Linear.reset_parameters" (3.11 and later) and "reset_parameters" (before) are the same function.
std::string_view last_part(std::string_view qualified) { return qualified.substr(qualified.rfind('.') + 1); }

bool is_installed_package(std::string_view path) {
  static constexpr std::array<std::string_view, 2> kPlaces = {"/site-packages/", "/dist-packages/"};
  return contains_any(path, kPlaces);
}

// .../lib/python3.11/json/decoder.py, also in a virtual environment; python311.zip.
bool is_python_standard_library(std::string_view file) {
  return contains(file, "/lib/python3") || contains(file, "/lib64/python3") || contains(file, "/Lib/python3") ||
         (contains(file, "/python3") && contains(file, ".zip/"));
}

// A file of the package torch, installed or in a source checkout; but not of a project that someone called pytorch.
bool is_torch_file(std::string_view file) {
  static constexpr std::array<std::string_view, 10> kParts = {
      "nn/", "optim/", "autograd/", "utils/", "_", "cuda/", "amp/", "distributed/", "fx/", "serialization.py"};
  return std::ranges::any_of(kParts, [file](std::string_view part) { return in_torch(file, part); });
}

// Code that has no file of its own. What a person typed has: <stdin>, <string>, <ipython-input-...>.
bool is_generated_python(std::string_view file) {
  static constexpr std::array<std::string_view, 5> kPrefixes = {"<frozen ", "<__array_function__", "<attrs generated",
                                                                "<eval_with_key>", "<torch_package_"};
  return starts_with_any(file, kPrefixes);
}

bool is_user_python(const Location& at) {
  return !at.file.empty() && !is_installed_package(at.file) && !is_python_standard_library(at.file) &&
         !is_torch_file(at.file) && !is_generated_python(at.file);
}

bool is_system_directory(std::string_view path) {
  static constexpr std::array<std::string_view, 7> kPrefixes = {"/lib/",           "/lib64/",    "/usr/lib/",     "/usr/lib64/",
                                                                "/usr/local/cuda", "/opt/cuda/", "/opt/nvidia/"};
  return starts_with_any(path, kPrefixes);
}

bool is_known_library(std::string_view path) {
  static constexpr std::array<std::string_view, 26> kNames = {
      "libtorch",  "libc10",    "libcuda",    "libcudart",  "libcublas", "libcudnn",    "libcufft", "libcusparse", "libcusolver",
      "libcurand", "libnccl",   "libnvrtc",   "libnvidia",  "libnvToolsExt", "libnpp",  "libnvjpeg", "libpython",  "libstdc++",
      "libgcc_s",  "libc.so",   "libpthread", "libm.so",    "ld-linux",  "libvramtrack", "libunwind", "libtensorflow"};
  return starts_with_any(base_name(path), kNames);
}

bool is_interpreter(std::string_view path) { return base_name(path).starts_with("python"); }

// Functions of the CUDA runtime linked statically into the user's program, and of the program's start.
bool is_library_function(std::string_view name) {
  static constexpr std::array<std::string_view, 7> kPrefixes = {"cuda", "__cuda", "cudart::", "libcudart_static_",
                                                                "__libc_start", "_start", "std::"};
  bool driver_function = name.size() > 2 && name.starts_with("cu") && name[2] >= 'A' && name[2] <= 'Z';
  return driver_function || starts_with_any(name, kPrefixes);
}

bool is_library_header(std::string_view file) {
  static constexpr std::array<std::string_view, 5> kParts = {"/include/c++/", "/include/thrust/", "/include/cub/",
                                                             "/include/torch/", "/include/cuda"};
  return file.starts_with("/usr/include/") || file.starts_with("/usr/local/cuda") || contains_any(file, kParts);
}

bool is_user_module(std::string_view path) {
  return !path.empty() && !is_installed_package(path) && !is_system_directory(path) && !is_known_library(path) &&
         !is_interpreter(path);
}

// ".../site-packages/numpy/core/numeric.py" -> "numpy".
std::string python_package(std::string_view file) {
  if (is_torch_file(file)) return "torch";
  for (std::string_view place : {"/site-packages/", "/dist-packages/"}) {
    size_t at = file.find(place);
    if (at == std::string_view::npos) continue;
    std::string_view rest = file.substr(at + place.size());
    return std::string(rest.substr(0, rest.find_first_of("/.")));
  }
  return "python";
}

// ".../libcudart.so.12" -> "libcudart".
std::string library_name(std::string_view path) {
  static constexpr std::array<std::string_view, 4> kTorch = {"libtorch", "libc10", "_C.", "libshm"};
  static constexpr std::array<std::string_view, 2> kPython = {"python", "libpython"};
  std::string_view name = base_name(path);
  if (name.empty()) return "the kernel";
  if (starts_with_any(name, kTorch)) return "torch";
  if (starts_with_any(name, kPython)) return "python";
  return std::string(name.substr(0, name.find(".so")));
}

// Calls `visit(frame, location)` from the innermost on until it answers true.
template <typename Visit>
void find_location(const Heap& heap, const Stack& stack, Visit visit) {
  for (uint32_t index : stack) {
    if (index >= heap.frames.size()) continue;
    const Frame& frame = heap.frames[index];
    for (const Location& at : frame.locations) {
      if (visit(frame, at)) return;
    }
  }
}

bool is_forward(const Location& at) {
  std::string_view function = last_part(at.function);
  bool in_modules = in_torch(at.file, "nn/modules/");
  return in_torch(at.file, "nn/functional.py") || (in_modules && function == "forward") ||
         (in_modules && (function == "_call_impl" || function == "_wrapped_call_impl"));
}

bool is_construction(const Location& at) {
  std::string_view function = last_part(at.function);
  if (in_torch(at.file, "nn/parameter.py") || in_torch(at.file, "nn/init.py")) return true;
  if (!in_torch(at.file, "nn/modules/")) return false;
  static constexpr std::array<std::string_view, 6> kFunctions = {"_apply",   "__init__", "reset_parameters",
                                                                 "to_empty", "_load_from_state_dict", "load_state_dict"};
  return std::ranges::find(kFunctions, function) != kFunctions.end();
}

Phase phase_of_python(const Location& at) {
  if (in_torch(at.file, "optim/")) return Phase::kOptimizer;
  if (in_torch(at.file, "utils/data/") || contains(at.file, "pin_memory.py")) return Phase::kLoading;
  if (is_construction(at)) return Phase::kConstruction;
  if (in_torch(at.file, "autograd/") && last_part(at.function) == "backward") return Phase::kBackward;
  return is_forward(at) ? Phase::kForward : Phase::kUnknown;
}

// Markers are "backward" and the names of autograd's nodes: "AddmmBackward0", "torch::autograd::AccumulateGrad".
Phase phase_of_marker(const Location& at) {
  bool backward = at.function == "backward" || contains(at.function, "Backward") || contains(at.function, "AccumulateGrad");
  return backward ? Phase::kBackward : Phase::kUnknown;
}

bool any_native_function(const Heap& heap, const Stack& stack, std::span<const std::string_view> parts) {
  bool found = false;
  find_location(heap, stack, [&](const Frame& frame, const Location& at) {
    return found = frame.kind == FrameKind::kNative && contains_any(at.function, parts);
  });
  return found;
}

bool is_workspace(const Heap& heap, const Stack& stack) {
  static constexpr std::array<std::string_view, 5> kParts = {"CUDABlasHandle", "WorkspaceForStream", "getWorkspace",
                                                             "raw_cudnn_", "Workspace::Workspace"};
  return any_native_function(heap, stack, kParts);
}

bool is_copy_to_device(const Heap& heap, const Stack& stack) {
  static constexpr std::array<std::string_view, 3> kParts = {"_to_copy", "THPVariable_cuda", "dispatch_to"};
  return any_native_function(heap, stack, kParts);
}

bool is_recorded_operator(const Heap& heap, const Stack& stack) {
  static constexpr std::array<std::string_view, 2> kParts = {"torch::autograd::VariableType::", "torch::ADInplaceOrView::"};
  return any_native_function(heap, stack, kParts);
}

// Blocks of the backward pass and of the optimizer come in two kinds that only their lifetime tells apart.
bool is_short_lived(const Heap& heap, const Site& site) {
  if (heap.process.steps != 0) return site.lifetime_steps[0] > site.allocations / 2;
  return site.end_blocks < site.allocations / 2;  // lifetimes are told in steps
}

}  // namespace

bool in_torch(std::string_view file, std::string_view inside) {
  for (size_t at = file.find(inside); at != std::string_view::npos; at = file.find(inside, at + 1)) {
    std::string_view before = file.substr(0, at);
    if (before == "torch/" || before.ends_with("/torch/")) return true;
  }
  return false;
}

bool is_user_location(const Heap& heap, const Frame& frame, const Location& at) {
  switch (frame.kind) {
    case FrameKind::kPython: return is_user_python(at);
    case FrameKind::kMarker: return false;
    case FrameKind::kNative: break;
  }
  bool has_module = frame.module >= 0 && static_cast<size_t>(frame.module) < heap.modules.size();
  return has_module && is_user_module(heap.modules[frame.module].path) && !is_library_header(at.file) &&
         !is_library_function(at.function);
}

namespace {

bool is_nameless_user_frame(const Heap& heap, const Frame& frame) {
  return frame.locations.empty() && is_user_location(heap, frame, {});
}

// What there is of it: "app+0x1f3", the address of the call in the object.
Location nameless(const Heap& heap, const Frame& frame) {
  const Module& module = heap.modules[static_cast<size_t>(frame.module)];
  return {fmt::format("{}+{:#x}", base_name(module.path), frame.address - 1 - module.load_bias), "", 0};
}

}  // namespace

std::vector<Location> user_locations(const Heap& heap, const Frame& frame) {
  if (is_nameless_user_frame(heap, frame)) return {nameless(heap, frame)};
  std::vector<Location> users;
  std::ranges::copy_if(frame.locations, std::back_inserter(users), [&](const Location& at) { return is_user_location(heap, frame, at); });
  return users;
}

bool is_user_frame(const Heap& heap, const Frame& frame) {
  if (is_nameless_user_frame(heap, frame)) return true;
  return std::ranges::any_of(frame.locations, [&](const Location& at) { return is_user_location(heap, frame, at); });
}

std::optional<Location> user_line(const Heap& heap, const Stack& stack) {
  std::optional<Location> python, native_line, native_function;
  find_location(heap, stack, [&](const Frame& frame, const Location& at) {
    if (!is_user_location(heap, frame, at)) return false;
    if (frame.kind == FrameKind::kPython) {
      python = at;
      return true;
    }
    if (at.line != 0 && !native_line) native_line = at;
    if (!at.function.empty() && !native_function) native_function = at;
    return false;
  });
  if (python) return python;
  if (native_line || native_function) return native_line ? native_line : native_function;
  for (uint32_t index : stack) {
    if (index < heap.frames.size() && is_nameless_user_frame(heap, heap.frames[index])) return nameless(heap, heap.frames[index]);
  }
  return std::nullopt;
}

std::string owner(const Heap& heap, const Frame& frame) {
  if (frame.kind == FrameKind::kPython) return frame.locations.empty() ? "python" : python_package(frame.locations[0].file);
  bool has_module = frame.module >= 0 && static_cast<size_t>(frame.module) < heap.modules.size();
  return has_module ? library_name(heap.modules[frame.module].path) : "generated code";
}

Phase phase(const Heap& heap, const Stack& stack) {
  Phase found = Phase::kUnknown;
  find_location(heap, stack, [&](const Frame& frame, const Location& at) {
    if (frame.kind == FrameKind::kPython) found = phase_of_python(at);
    if (frame.kind == FrameKind::kMarker) found = phase_of_marker(at);
    return found != Phase::kUnknown;
  });
  return found;
}

std::string_view category_of_kept(const Heap& heap, const Site& site) {
  const std::string_view all = category(heap, site);
  if (all != "temporary") return all;
  return phase(heap, site.stack) == Phase::kOptimizer ? "optimizer state" : "gradient";
}

std::string_view category(const Heap& heap, const Site& site) {
  bool known_space = site.space >= 0 && static_cast<size_t>(site.space) < heap.spaces.size();
  if (!known_space || heap.spaces[site.space].layer != Layer::kPytorch) return "";
  if (is_workspace(heap, site.stack)) return "workspace";
  switch (phase(heap, site.stack)) {
    case Phase::kConstruction: return "parameter";
    case Phase::kLoading: return "input";
    case Phase::kForward: return "activation";
    case Phase::kBackward: return is_short_lived(heap, site) ? "temporary" : "gradient";
    case Phase::kOptimizer: return is_short_lived(heap, site) ? "temporary" : "optimizer state";
    case Phase::kUnknown: break;
  }
  if (is_copy_to_device(heap, site.stack)) return "input";
  return is_recorded_operator(heap, site.stack) ? "activation" : "other";
}

}  // namespace vramtrack

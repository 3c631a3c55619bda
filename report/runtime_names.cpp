// Which function of the runtime did a program call that is linked with it statically? See runtime_names.h.
#include "report/runtime_names.h"

#include <algorithm>

namespace vramtrack {
namespace {

constexpr size_t kFramesOfTheRuntime = 16;  // cudaMalloc is never this far from the driver

bool is_runtime_function(const std::string& name) {
  return name.size() > 4 && name.starts_with("cuda") && name[4] >= 'A' && name[4] <= 'Z' &&
         name.find_first_of(":(<") == std::string::npos;
}
bool is_driver_function(const std::string& name) { return name.starts_with("cu") && !name.starts_with("cuda"); }

void name_call(const Heap& heap, Stack& stack, std::string& api) {
  if (!is_driver_function(api)) return;
  for (size_t i = 0; i < std::min(stack.size(), kFramesOfTheRuntime); i++) {
    const Frame& frame = heap.frames[stack[i]];
    if (frame.kind != FrameKind::kNative || frame.locations.empty()) continue;
    const std::string& function = frame.locations.back().function;
    if (!is_runtime_function(function)) continue;
    api = function;
    stack.erase(stack.begin(), stack.begin() + i + 1);
    return;
  }
}

}  // namespace

void name_runtime_calls(Heap& heap) {
  for (Site& site : heap.sites) name_call(heap, site.stack, site.api);
  for (Site& site : heap.handles.sites) name_call(heap, site.stack, site.api);
  for (Pool& pool : heap.pools) name_call(heap, pool.threshold_stack, pool.threshold_api);
  for (Incident& incident : heap.incidents) name_call(heap, incident.stack, incident.api);
}

}  // namespace vramtrack

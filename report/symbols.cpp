// Which functions and lines the native addresses of a heap are: goes through the modules and asks each about its addresses.
#include "report/symbols.h"

#include <cstdlib>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "report/categories.h"
#include "report/module_symbols.h"

namespace vramtrack {
namespace {

// The native frames that sites, pools and incidents use, by module. A capture has many frames whose stacks nothing reports.
std::map<int, std::set<uint32_t>> used_native_frames(const Heap& heap) {
  std::map<int, std::set<uint32_t>> by_module;
  auto use = [&](const Stack& stack) {
    for (uint32_t index : stack) {
      if (index >= heap.frames.size()) continue;
      const Frame& frame = heap.frames[index];
      bool resolvable = frame.kind == FrameKind::kNative && frame.module >= 0 &&
                        static_cast<size_t>(frame.module) < heap.modules.size() && frame.locations.empty();
      if (resolvable) by_module[frame.module].insert(index);
    }
  };
  for (const Site& site : heap.sites) use(site.stack);
  for (const Site& site : heap.handles.sites) use(site.stack);
  for (const Incident& incident : heap.incidents) use(incident.stack);
  for (const Pool& pool : heap.pools) use(pool.threshold_stack);
  return by_module;
}

void resolve_module(Heap& heap, const Module& module, const std::set<uint32_t>& frames, const SymbolOptions& options) {
  if (module.path.empty()) return;  // the vDSO
  std::vector<uint64_t> addresses;  // of the calls, in the object
  for (uint32_t index : frames) addresses.push_back(heap.frames[index].address - 1 - module.load_bias);
  ModuleSymbols symbols = module_symbols(module.path, module.build_id, addresses, options.debug_path);
  if (!symbols.problem.empty()) {
    heap.process.notes.push_back(fmt::format("{}: {}: its functions have no names (`--debug-path DIR` says where else to look)",
                                             module.path, symbols.problem));
  }
  size_t i = 0;
  bool any_line = false, any_of_user = false;
  for (uint32_t index : frames) {
    Frame& frame = heap.frames[index];
    frame.locations = std::move(symbols.locations[i++]);
    any_line |= std::ranges::any_of(frame.locations, [](const Location& at) { return at.line != 0; });
    any_of_user |= is_user_frame(heap, frame);
  }
  if (symbols.problem.empty() && any_of_user && !any_line) {
    heap.process.notes.push_back(fmt::format("{}: its functions have no lines: compile it with -g (optimised as it is)", module.path));
  }
}

}  // namespace

void resolve(Heap& heap, const SymbolOptions& options) {
  unsetenv("DEBUGINFOD_URLS");  // a report must not download: libdwfl asks this variable alone
  for (const auto& [index, frames] : used_native_frames(heap)) resolve_module(heap, heap.modules[index], frames, options);
}

}  // namespace vramtrack

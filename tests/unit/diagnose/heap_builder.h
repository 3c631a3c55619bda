// Builds the heap of a program that never ran: a test tells what the program does, allocation by allocation, and gets what
// the recorder and the reader would have made of it: counters, floors, lifetimes, the composition at the peak, survivors.
//
//   Story story;
//   const Line evaluate = story.line("eval.py", 7, "evaluate");
//   for (int i = 0; i < 200; ++i) story.keep(story.in_forward(evaluate, "relu"), 64 * kKiB);
//   EXPECT_EQ(worst(diagnose(story.end())).id, "retained-results");
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "report/heap.h"

namespace vramtrack {

inline constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

class Story {
 public:
  using SiteId = size_t;   // index into Heap::sites
  using BlockId = uint64_t;  // its serial
  using Line = Stack;      // a user's line and its callers, innermost first

  explicit Story(Layer layer = Layer::kPytorch, Memory memory = Memory::kDevice) {
    space(layer, memory);
    heap_.process.ended = "exit:0";
    heap_.modules.push_back({"/home/user/app"});
    heap_.modules.push_back({"/opt/venv/lib/python3.11/site-packages/torch/lib/libc10_cuda.so"});
    heap_.modules.push_back({"/usr/local/cuda/lib64/libcudart.so.13"});
    if (layer == Layer::kPytorch) heap_.process.has_torch = true, heap_.process.python_version = "3.11.2";
  }

  // --- places -----------------------------------------------------------------------------------------------------------

  int space(Layer layer, Memory memory) {
    Space space;
    space.layer = layer;
    space.memory = memory;
    space.device = memory == Memory::kDevice ? 0 : -1;
    heap_.spaces.push_back(space);
    return static_cast<int>(heap_.spaces.size()) - 1;
  }

  Line line(const std::string& file, int number, const std::string& function = "<module>", const Line& callers = {}) {
    return on_top_of(callers, python("/home/user/" + file, number, function));
  }

  // A line of a C++ program.
  Line native_line(const std::string& file, int number, const std::string& function, const Line& callers = {}) {
    return on_top_of(callers, native(0, function, file, number));
  }

  SiteId site(const Stack& stack, int space = 0, Kind kind = Kind::kDevice) {
    const auto key = std::tuple(stack, space, kind);
    if (const auto known = sites_.find(key); known != sites_.end()) return known->second;
    Site site;
    site.id = static_cast<uint32_t>(heap_.sites.size()) + 1;
    site.space = space;
    site.kind = kind;
    site.stack = stack;
    heap_.sites.push_back(site);
    history_.emplace_back();
    return sites_[key] = heap_.sites.size() - 1;
  }

  // Where an operator of the forward pass allocates, inside a module that `line` calls.
  SiteId in_forward(const Line& line, const std::string& op) {
    Stack stack = on_top_of(line, python(torch("nn/modules/module.py"), 1190, "_call_impl"));
    stack = on_top_of(stack, python(torch("nn/modules/container.py"), 204, "forward"));
    return site(on_top_of(stack, native(1, "at::native::" + op)));
  }
  // Where `line` itself calls an operator.
  SiteId at(const Line& line, const std::string& op) { return site(on_top_of(line, native(1, "at::native::" + op))); }

  SiteId parameter(const Line& line, int number) {
    return site(on_top_of(line, python(torch("nn/modules/linear.py"), number, "__init__")));
  }
  SiteId in_backward(const Line& line, const std::string& node) {
    return site(on_top_of(on_top_of(line, marker("backward")), native(1, node)));
  }
  SiteId in_optimizer(const Line& line, int number) {
    return site(on_top_of(line, python(torch("optim/adam.py"), number, "_init_group")));
  }

  // --- what the program does ---------------------------------------------------------------------------------------------

  BlockId alloc(SiteId index, uint64_t size) {
    Site& site = heap_.sites[index];
    Space& space = heap_.spaces[static_cast<size_t>(site.space)];
    const uint64_t serial = ++heap_.process.allocations;
    if (site.allocations == 0) {
      site.first_serial = serial, site.first_step = heap_.process.steps, site.first_time = now_;
      site.size_min = site.size_max = size;
    }
    site.allocs_over_live += site.live_blocks > 0;
    site.size_changes += site.allocations > 0 && size != last_sizes_[index];
    site.new_max_sizes += site.allocations == 0 || size > site.size_max;
    ++site.allocations, ++space.allocations;
    site.allocated_bytes += size;
    site.size_min = std::min(site.size_min, size), site.size_max = std::max(site.size_max, size);
    last_sizes_[index] = size;
    site.last_serial = serial, site.last_step = heap_.process.steps, site.last_time = now_;
    live_[serial] = {index, size, heap_.process.steps, now_, thread_};
    change(site, space, size, 1);
    if (site.live_blocks > site.level_blocks + site.level_blocks / 8) {
      site.level_blocks = site.live_blocks, site.level_allocations = site.allocations;
    }
    remember(index, space);
    return serial;
  }

  void free(BlockId block) {
    const Live& gone = live_.at(block);
    Site& site = heap_.sites[gone.site];
    Space& space = heap_.spaces[static_cast<size_t>(site.space)];
    ++site.frees, ++space.frees;
    uint32_t lived = heap_.process.steps - gone.step;
    size_t bucket = 0;
    while (lived > 0 && bucket + 1 < site.lifetime_steps.size()) ++bucket, lived >>= 1;
    ++site.lifetime_steps[bucket];
    change(site, space, ~gone.size + 1, -1);
    remember(gone.site, space);
    live_.erase(block);
  }

  void keep(SiteId site, uint64_t size) { alloc(site, size); }
  void pass(SiteId site, uint64_t size) { free(alloc(site, size)); }

  void step() { ++heap_.process.steps, heap_.process.step_source = StepSource::kOptimizer; }
  void backward_pass() { ++heap_.process.backward_passes, heap_.process.last_backward_serial = heap_.process.allocations; }
  void wait(double seconds) { now_ += seconds; }
  void on_thread(uint32_t thread) { thread_ = thread; }  // from now on
  uint64_t live_bytes(int space = 0) const { return heap_.spaces[static_cast<size_t>(space)].live_bytes; }

  // A finalising interpreter frees everything after the work.
  Heap end() {
    peak_of_.resize(heap_.sites.size());
    heap_.process.duration = now_;
    for (Site& site : heap_.sites) {
      site.end_bytes = site.live_bytes, site.end_blocks = site.live_blocks;
      if (site.allocations > 1) site.curve = curve_of(site);
      const Space& space = heap_.spaces[static_cast<size_t>(site.space)];
      if (peak_of_[&site - heap_.sites.data()].at != space.peak_bytes) continue;
      site.peak_bytes = peak_of_[&site - heap_.sites.data()].bytes, site.peak_blocks = peak_of_[&site - heap_.sites.data()].blocks;
    }
    for (const auto& [serial, block] : live_) {
      Block survivor;
      survivor.serial = serial, survivor.address = serial << 12, survivor.size = block.size;
      survivor.step = block.step, survivor.time = block.time, survivor.thread = block.thread;
      heap_.sites[block.site].survivors.push_back(survivor);
    }
    return heap_;
  }

  Heap& heap() { return heap_; }  // for incidents and for what else a test wants to say by hand

  Frame python(const std::string& file, int line, const std::string& function) {
    return {FrameKind::kPython, 0, -1, {{function, file, line}}};
  }
  Frame native(int module, const std::string& function, const std::string& file = "", int line = 0) {
    return {FrameKind::kNative, 0x1000, module, {{function, file, line}}};
  }
  Frame marker(const std::string& name) { return {FrameKind::kMarker, 0, -1, {{name, "", 0}}}; }
  static std::string torch(const std::string& file) { return "/opt/venv/lib/python3.11/site-packages/torch/" + file; }

  Stack on_top_of(const Stack& callers, const Frame& frame) {
    const Location& at = frame.locations.front();
    const auto key = std::tuple(frame.kind, frame.module, at.file, at.line, at.function);
    auto [known, is_new] = frames_.try_emplace(key, static_cast<uint32_t>(heap_.frames.size()));
    if (is_new) heap_.frames.push_back(frame);
    Stack stack{known->second};
    stack.insert(stack.end(), callers.begin(), callers.end());
    return stack;
  }

 private:
  struct Live {
    SiteId site;
    uint64_t size;
    uint32_t step;
    double time;
    uint32_t thread = 0;
  };
  struct Change {
    uint64_t step, allocation;  // of the space
    uint64_t live_bytes;
  };
  struct AtPeak {
    uint64_t at = 0, bytes = 0, blocks = 0;
  };

  void change(Site& site, Space& space, uint64_t bytes, int blocks) {
    site.live_bytes += bytes, site.live_blocks += static_cast<uint64_t>(blocks);
    space.live_bytes += bytes, space.live_blocks += static_cast<uint64_t>(blocks);
    site.max_live_bytes = std::max(site.max_live_bytes, site.live_bytes);
    site.max_live_blocks = std::max(site.max_live_blocks, site.live_blocks);
    peak_of_.resize(heap_.sites.size());
    if (space.live_bytes <= space.peak_bytes) return;
    space.peak_bytes = space.live_bytes;
    for (size_t i = 0; i < heap_.sites.size(); ++i) {
      const Site& each = heap_.sites[i];
      if (&heap_.spaces[static_cast<size_t>(each.space)] == &space) peak_of_[i] = {space.peak_bytes, each.live_bytes, each.live_blocks};
    }
  }

  void remember(SiteId index, const Space& space) {
    history_[index].push_back({heap_.process.steps, space.allocations, heap_.sites[index].live_bytes});
  }

  // The least live bytes in each of up to 64 equal windows.
  Curve curve_of(const Site& site) const {
    constexpr uint64_t kPoints = 64;
    Curve curve;
    const bool by_step = heap_.process.steps > 0;
    const uint64_t last = by_step ? heap_.process.steps : heap_.spaces[static_cast<size_t>(site.space)].allocations;
    uint64_t window = 1;
    while (last / window >= kPoints) window *= 2;
    const std::vector<Change>& changes = history_[static_cast<size_t>(&site - heap_.sites.data())];
    uint64_t live = 0;
    size_t next = 0;
    for (uint64_t point = 0; point <= last / window; ++point) {
      uint64_t least = live;
      for (; next < changes.size(); ++next) {
        const uint64_t when = by_step ? changes[next].step : changes[next].allocation;
        if (when / window > point) break;
        live = changes[next].live_bytes;
        least = std::min(least, live);
      }
      curve.floor.push_back(static_cast<double>(least));
    }
    return curve;
  }

  Heap heap_;
  std::map<SiteId, uint64_t> last_sizes_;
  double now_ = 0;
  uint32_t thread_ = 1;
  std::map<BlockId, Live> live_;
  std::vector<std::vector<Change>> history_;
  std::vector<AtPeak> peak_of_;
  std::map<std::tuple<Stack, int, Kind>, SiteId> sites_;
  std::map<std::tuple<FrameKind, int, std::string, int, std::string>, uint32_t> frames_;
};

using Line = Story::Line;

}  // namespace vramtrack

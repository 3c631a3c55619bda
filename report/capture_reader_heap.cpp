// The heap in a capture: its records, checked one by one and joined by their indices.
#include "report/capture_reader_heap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace vramtrack::reader {
namespace {

// Deeper stacks keep their innermost frames. Bounds the work that a file of chained nodes can ask for.
constexpr size_t kMaxStackDepth = 1024;


// A capture whose `from` enum counts from 1 (0 = not written) and whose heap counterpart counts from 0.
template <typename To, typename From>
bool convert(From from, To last, To& to) {
  auto value = static_cast<uint64_t>(from);
  if (value == 0 || value - 1 > static_cast<uint64_t>(last)) return false;
  to = static_cast<To>(value - 1);
  return true;
}

// A writer publishes what a record names before the record. So whoever names others is read before them, and the header, which
// says how many there are, again in between: in the capture of a running process nothing is named that is not there.
class Reader {
 public:
  Reader(const Source& source, const HeaderCopy& header)
      : source_(source),
        header_(header),
        blocks_(read_blocks(source_, header_, heap_.damage)),
        sites_(newest(format::kSites, sizeof(format::Site))),
        incidents_(newest(format::kIncidents, sizeof(format::Incident))),
        streams_(newest(format::kStreams, sizeof(format::Stream))),
        pools_(newest(format::kPools, sizeof(format::Pool))),
        spaces_(newest(format::kSpaces, sizeof(format::Space))),
        curves_(newest(format::kCurves, sizeof(format::Curve))),
        stacks_(newest(format::kStacks, sizeof(format::StackNode))),
        frames_(newest(format::kFrames, sizeof(format::Frame))),
        modules_(newest(format::kModules, sizeof(format::Module))),
        strings_(newest(format::kStrings, 1), source.size()) {}

  Heap read() {
    heap_.process = read_process(header_, strings_);
    read_modules();
    read_frames();
    read_spaces();
    read_sites();
    read_streams();
    read_blocks_into_sites();
    read_incidents();
    read_pools();
    move_handles_apart();
    count_damage();
    return std::move(heap_);
  }

 private:
  void read_modules();
  void read_frames();
  void read_spaces();
  void read_sites();
  void read_blocks_into_sites();
  void read_incidents();
  void read_pools();
  void read_streams();
  void move_handles_apart();
  void count_damage();

  bool make_frame(const format::Frame& from, Frame& to);
  bool make_space(const format::Space& from, Space& to);
  bool make_site(const format::Site& from, Site& to);
  bool make_incident(const format::Incident& from, Incident& to);
  void make_peak(const format::Site& from, Site& to) const;
  Curve make_curve(const format::Site& from, const Site& site);
  Stack make_stack(uint32_t node);
  uint64_t windows_of(const format::Space& space) const;
  int space_index(uint16_t record) const;
  uint64_t end_number(int space) const;
  double time_of(uint32_t ms) const { return heap_.process.recorded_from + ms / 1000.0; }

  TableCopy newest(format::TableId, size_t record_size);

  const Source& source_;
  Heap heap_;
  HeaderCopy header_;
  TableCopy blocks_, sites_, incidents_, streams_, pools_, spaces_, curves_, stacks_, frames_, modules_;
  Strings strings_;
  std::vector<int> space_of_record_;
  std::vector<int> site_of_record_;
  std::vector<bool> holds_handles_;  // of each space, until they are moved apart
  uint64_t bad_sites_ = 0, bad_blocks_ = 0, bad_stacks_ = 0, bad_curves_ = 0, bad_frames_ = 0, bad_incidents_ = 0,
           cut_stacks_ = 0;
};

TableCopy Reader::newest(format::TableId id, size_t record_size) {
  HeaderCopy now;
  if (source_.read_at(0, now.bytes) == sizeof(now.bytes)) header_ = now;
  return read_table(source_, header_, id, record_size, heap_.damage);
}

void Reader::read_modules() {
  for (size_t i = 1; i < modules_.count(); ++i) {
    const auto& from = modules_.at<format::Module>(i);
    Module to;
    to.path = strings_.get(from.path);
    for (size_t k = 0; k < std::min<size_t>(from.build_id_size, sizeof(from.build_id)); ++k) {
      to.build_id += fmt::format("{:02x}", from.build_id[k]);
    }
    to.load_bias = from.load_bias;
    to.begin = from.begin;
    to.end = from.end;
    to.unloaded = from.unloaded != 0;
    heap_.modules.push_back(std::move(to));
  }
}

bool Reader::make_frame(const format::Frame& from, Frame& to) {
  if (!convert(from.kind, FrameKind::kMarker, to.kind)) return false;
  to.address = from.address;
  if (to.kind == FrameKind::kNative) {
    if (from.module != 0 && from.module < modules_.count()) to.module = static_cast<int>(from.module) - 1;
    return true;
  }
  uint32_t line = std::min<uint32_t>(from.line, std::numeric_limits<int>::max());
  to.locations = {{strings_.get(from.function), strings_.get(from.file), static_cast<int>(line)}};
  return true;
}

void Reader::read_frames() {
  // Frame i of the heap is record i + 1, also where the record cannot be read: stacks do not name those.
  for (size_t i = 1; i < frames_.count(); ++i) {
    Frame to;
    if (!make_frame(frames_.at<format::Frame>(i), to)) ++bad_frames_;
    heap_.frames.push_back(std::move(to));
  }
}

Stack Reader::make_stack(uint32_t node) {
  Stack stack;
  while (node != 0) {
    if (node >= stacks_.count() || stack.size() == kMaxStackDepth) {
      ++(node >= stacks_.count() ? bad_stacks_ : cut_stacks_);
      break;
    }
    const auto& at = stacks_.at<format::StackNode>(node);
    bool frame_is_there = at.frame != 0 && at.frame < frames_.count() &&
                          frames_.at<format::Frame>(at.frame).kind != format::FrameKind::kNone;
    // Nodes are written after their parents, so a parent that is not older is damage, and might be a cycle.
    if (!frame_is_there || at.parent >= node) {
      ++bad_stacks_;
      break;
    }
    stack.push_back(at.frame - 1);
    node = at.parent;
  }
  return stack;
}

bool Reader::make_space(const format::Space& from, Space& to) {
  const bool of_memory = from.layer != format::Layer::kHandles;
  if ((of_memory && !convert(from.layer, Layer::kPytorch, to.layer)) || !convert(from.memory, Memory::kImported, to.memory)) return false;
  to.device = from.device;
  to.name = strings_.get(from.name);
  to.total_bytes = from.total_bytes;
  to.live_bytes = from.live_bytes;
  to.live_blocks = from.live_blocks;
  to.peak_bytes = from.peak_bytes;
  to.peak_time = time_of(from.peak_time_ms);
  to.peak_step = from.peak_step;
  to.allocations = from.allocations;
  to.frees = from.frees;
  to.failed_allocations = from.failed_allocations;
  to.reserved_bytes = from.reserved_bytes;
  for (uint32_t i = 0; i < std::min(from.series_count, format::kSeriesPoints); ++i) {
    const format::SeriesPoint& point = from.series[i];
    to.series.push_back({time_of(point.time_ms), point.step, point.live_min, point.live_max, point.reserved_max});
  }
  to.usage.used = from.usage.used;
  to.usage.tracked = from.usage.tracked;
  to.usage.peak_used = from.usage.peak_used;
  const uint32_t points = from.usage.scale < 32 ? (from.usage.samples + (1u << from.usage.scale) - 1) >> from.usage.scale : 0;
  for (uint32_t i = 0; i < std::min(points, format::kUsagePoints); ++i) {
    to.usage.rest.push_back({time_of(from.usage.point[i].time_ms), from.usage.point[i].rest});
  }
  return true;
}

void Reader::read_spaces() {
  space_of_record_.assign(std::max<size_t>(spaces_.count(), 1), -1);
  for (size_t i = 1; i < spaces_.count(); ++i) {
    Space to;
    if (!make_space(spaces_.at<format::Space>(i), to)) continue;
    space_of_record_[i] = static_cast<int>(heap_.spaces.size());
    heap_.spaces.push_back(std::move(to));
    holds_handles_.push_back(spaces_.at<format::Space>(i).layer == format::Layer::kHandles);
  }
}

// Of frees that came after the program's work, in this space; 0 while it goes on. See Header::end_number.
uint64_t Reader::end_number(int space) const {
  if (header_->work_ended_serial == 0) return 0;
  const bool of_tensors = !holds_handles_[space] && heap_.spaces[space].layer == Layer::kPytorch;
  return of_tensors ? header_->end_number : header_->end_number | format::kAfterWork;
}

int Reader::space_index(uint16_t record) const { return record < space_of_record_.size() ? space_of_record_[record] : -1; }

void Reader::make_peak(const format::Site& from, Site& to) const {
  const auto& space = spaces_.at<format::Space>(from.space);
  bool changed_since_peak = from.peak_number == space.peak_number;
  to.peak_bytes = changed_since_peak ? from.saved_peak_bytes : from.live_bytes;
  to.peak_blocks = changed_since_peak ? from.saved_peak_blocks : from.live_blocks;
}

// Windows of the space's clock that have begun, those included that began since its last event.
uint64_t Reader::windows_of(const format::Space& space) const {
  switch (space.clock) {
    case format::Clock::kAllocations: return space.allocations;
    case format::Clock::kBackward: break;
    case format::Clock::kStep: {
      const Process& process = heap_.process;
      const uint64_t steps = process.work_ended ? process.work_ended_step : process.steps;
      return space.windows + (steps > space.iterations_seen ? steps - space.iterations_seen : 0);
    }
  }
  return space.windows;
}

// The curve up to where the work ended. The file's stops before the site's last change; from there on the site held what it holds.
Curve Reader::make_curve(const format::Site& from, const Site& site) {
  if (from.curve == 0) return {};
  if (from.curve >= curves_.count()) return ++bad_curves_, Curve{};
  const auto& curve = curves_.at<format::Curve>(from.curve);
  if (curve.site != site.id || curve.last_window >= format::kCurvePoints || curve.scale >= 48) return ++bad_curves_, Curve{};

  Curve to;
  for (uint32_t i = 0; i <= curve.last_window; ++i) {
    bool sane = std::isfinite(curve.floor[i]) && curve.floor[i] >= 0;
    to.floor.push_back(sane ? curve.floor[i] : 0);
  }
  to.floor.back() = std::min(to.floor.back(), static_cast<double>(site.end_bytes));
  uint32_t scale = curve.scale;
  const auto& space = spaces_.at<format::Space>(from.space);
  if (space.clock != format::Clock::kAllocations && !curve.by_iteration) {  // not touched since there are iterations
    to.floor = {static_cast<double>(site.end_bytes)};
    scale = 0;
  }
  const uint64_t window_now = windows_of(space);
  while (window_now >> scale >= format::kCurvePoints) {
    for (size_t i = 0; i < to.floor.size(); i += 2) {
      to.floor[i / 2] = std::min(to.floor[i], to.floor[std::min(i + 1, to.floor.size() - 1)]);
    }
    to.floor.resize((to.floor.size() + 1) / 2);
    ++scale;
  }
  size_t points_now = (window_now >> scale) + 1;
  while (to.floor.size() < points_now) to.floor.push_back(static_cast<double>(site.end_bytes));
  return to;
}

bool Reader::make_site(const format::Site& from, Site& to) {
  to.space = space_index(from.space);
  if (to.space < 0 || !convert(from.kind, kLastKind, to.kind)) return false;
  if (is_handle(to.kind) != holds_handles_[to.space]) return false;
  to.stack = make_stack(from.stack);
  to.api = strings_.get(from.api);
  to.overflow = from.overflow != 0;
  to.allocations = from.allocations;
  to.frees = from.frees;
  to.allocated_bytes = from.allocated_bytes;
  to.live_bytes = from.live_bytes;
  to.live_blocks = from.live_blocks;
  const uint64_t end = end_number(to.space);
  const bool fell_after_work = end != 0 && from.end_number == end;
  to.end_bytes = fell_after_work ? from.end_bytes : from.live_bytes;
  to.end_blocks = fell_after_work ? from.end_blocks : from.live_blocks;
  make_peak(from, to);
  to.max_live_bytes = from.max_live_bytes;
  to.max_live_blocks = from.max_live_blocks;
  to.first_time = time_of(from.first_time_ms);
  to.last_time = time_of(from.last_time_ms);
  to.first_step = from.first_step;
  to.last_step = from.last_step;
  to.first_serial = from.first_serial;
  to.last_serial = from.last_serial;
  to.size_min = from.size_min;
  to.size_max = from.size_max;
  to.new_max_sizes = from.new_max_sizes;
  to.level_blocks = from.level_blocks;
  to.level_allocations = from.level_allocations;
  to.driver_time = static_cast<double>(from.driver_ns) / 1e9;
  to.size_changes = from.size_changes;
  to.allocs_over_live = from.allocs_over_live;
  std::copy_n(from.lifetime_steps, to.lifetime_steps.size(), to.lifetime_steps.begin());
  to.curve = make_curve(from, to);
  return true;
}

void Reader::read_sites() {
  site_of_record_.assign(std::max<size_t>(sites_.count(), 1), -1);
  for (size_t i = 1; i < sites_.count(); ++i) {
    const auto& from = sites_.at<format::Site>(i);
    if (from.space == 0 && from.allocations == 0) continue;  // not written yet
    Site to;
    to.id = static_cast<uint32_t>(i);
    if (!make_site(from, to)) {
      ++bad_sites_;
      continue;
    }
    site_of_record_[i] = static_cast<int>(heap_.sites.size());
    heap_.sites.push_back(std::move(to));
  }
}

void Reader::read_blocks_into_sites() {
  const Process& process = heap_.process;
  for (size_t i = 1; i < blocks_.count(); ++i) {
    const auto& from = blocks_.at<format::Block>(i);
    const uint64_t mark = from.serial.load(std::memory_order_relaxed), serial = mark & ~format::kFreed;
    int site = from.site < site_of_record_.size() ? site_of_record_[from.site] : -1;
    if (serial == 0) continue;
    if (site < 0) {
      bad_blocks_ += serial == mark;
      continue;
    }
    const uint64_t end = end_number(heap_.sites[site].space);  // a block freed under it is a survivor of the work
    const bool let_go = serial != mark && from.end_number == end && !(end & format::kAfterWork);
    const bool torn_down = serial != mark && from.end_number == (end | format::kAfterWork);
    if (serial != mark && (end == 0 || !(let_go || torn_down))) continue;
    bool made_in_teardown = process.work_ended && serial > process.work_ended_serial;
    if (made_in_teardown) continue;
    Block block = {from.address, from.size, serial, from.owner, from.thread, from.step, time_of(from.time_ms)};
    const bool is_referred_to = heap_.sites[site].kind == Kind::kPhysical || heap_.sites[site].kind == Kind::kIpc;
    if (is_referred_to) block.references = from.references, block.mappings = from.mappings;
    else if (from.stream > 0 && from.stream <= heap_.streams.size()) block.stream = from.stream - 1;
    block.let_go = let_go;
    heap_.sites[site].survivors.push_back(block);
  }
  for (Site& site : heap_.sites) std::ranges::sort(site.survivors, {}, &Block::serial);
}

bool Reader::make_incident(const format::Incident& from, Incident& to) {
  if (!convert(from.kind, IncidentKind::kUnhooked, to.kind)) return false;
  if (from.fault > format::FreeFault::kGoneWithContext) return false;
  to.fault = static_cast<FreeFault>(from.fault);
  to.stack = make_stack(from.stack);
  to.api = strings_.get(from.api);
  to.name = strings_.get(from.name);
  to.space = space_index(from.space);
  to.detail = from.detail;
  bool site_is_there = from.other_site < site_of_record_.size() && site_of_record_[from.other_site] >= 0;
  to.allocated_by = site_is_there ? from.other_site : 0;
  to.count = from.count;
  to.first_time = time_of(from.first_time_ms);
  to.last_time = time_of(from.last_time_ms);
  to.first_step = from.first_step;
  to.last_step = from.last_step;
  to.address = from.address;
  to.size = from.size;
  to.live_bytes = from.live_bytes;
  to.reserved_bytes = from.reserved_bytes;
  to.total_bytes = from.total_bytes;
  to.serial = from.serial;
  for (uint32_t i = 0; i < std::min(from.top_count, format::kTopSites); ++i) {
    uint32_t site = from.top[i].site;
    if (site < site_of_record_.size() && site_of_record_[site] >= 0) to.top.push_back({site, from.top[i].bytes});
  }
  return true;
}

void Reader::read_incidents() {
  for (size_t i = 1; i < incidents_.count(); ++i) {
    const auto& from = incidents_.at<format::Incident>(i);
    if (from.kind == format::IncidentKind::kNone) continue;
    Incident to;
    if (make_incident(from, to)) {
      heap_.incidents.push_back(std::move(to));
    } else {
      ++bad_incidents_;
    }
  }
}

void Reader::read_streams() {
  for (size_t i = 1; i < streams_.count(); ++i) {
    const auto& from = streams_.at<format::Stream>(i);
    heap_.streams.push_back({from.id, from.device, from.last_serial, time_of(from.last_time_ms), from.last_step});
  }
}

void Reader::read_pools() {
  for (size_t i = 1; i < pools_.count(); ++i) {
    const auto& from = pools_.at<format::Pool>(i);
    if (from.samples == 0 || from.scale >= 32) continue;
    Pool to;
    to.handle = from.handle;
    to.device = from.device;
    to.reserved = from.reserved;
    to.used = from.used;
    to.peak_reserved = from.peak_reserved;
    to.threshold = from.threshold;
    to.threshold_stack = make_stack(from.threshold_stack);
    to.threshold_api = strings_.get(from.threshold_api);
    to.destroyed = from.destroyed != 0;
    const uint32_t points = std::min(((from.samples - 1) >> from.scale) + 1, format::kPoolPoints);
    for (const format::PoolPoint& point : std::span(from.point, points)) {
      to.points.push_back({time_of(point.time_ms), point.idle_min, point.used_max});
    }
    heap_.pools.push_back(std::move(to));
  }
}

void Reader::move_handles_apart() {
  std::vector<int> new_index;
  std::vector<Space> memory;
  for (size_t i = 0; i < heap_.spaces.size(); ++i) {
    std::vector<Space>& room = holds_handles_[i] ? heap_.handles.spaces : memory;
    new_index.push_back(static_cast<int>(room.size()));
    room.push_back(std::move(heap_.spaces[i]));
  }
  heap_.spaces = std::move(memory);

  std::vector<Site> of_memory;
  for (Site& site : heap_.sites) {
    std::vector<Site>& room = holds_handles_[site.space] ? heap_.handles.sites : of_memory;
    site.space = new_index[site.space];
    room.push_back(std::move(site));
  }
  heap_.sites = std::move(of_memory);
  for (Incident& incident : heap_.incidents) {
    if (incident.space >= 0) incident.space = holds_handles_[incident.space] ? -1 : new_index[incident.space];
  }
}

void Reader::count_damage() {
  auto damage = [&](uint64_t count, std::string_view what) {
    if (count != 0) heap_.damage.push_back(fmt::format("{} {}", count, what));
  };
  damage(bad_frames_, "frames could not be read, dropped");
  damage(bad_stacks_, "stacks end in a damaged node, their outer frames dropped");
  damage(bad_sites_, "sites could not be read, dropped");
  damage(bad_curves_, "growth curves could not be read, dropped");
  damage(bad_blocks_, "blocks name a site that is not there, dropped");
  damage(bad_incidents_, "events could not be read, dropped");
  damage(strings_.bad(), "names could not be read, left empty");
  if (cut_stacks_ != 0) {
    heap_.process.notes.push_back(fmt::format("{} stacks were cut to their {} innermost frames", cut_stacks_, kMaxStackDepth));
  }
}

}  // namespace

Heap read_heap(const Source& source, const HeaderCopy& header) { return Reader(source, header).read(); }

}  // namespace vramtrack::reader

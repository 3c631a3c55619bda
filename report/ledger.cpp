// Where the bytes of each device are: used and free for reuse, by whom, at the end and at the peak.
#include "report/ledger.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "report/pools.h"
#include "report/segments.h"

namespace vramtrack {
namespace {

constexpr uint64_t kOver = 4;  // times more before than in the second half: a rise that is over

uint64_t above(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

struct Layers {
  const Space* driver = nullptr;
  const Space* pytorch = nullptr;
  const Space* imported = nullptr;
};

Layers layers_of(const Heap& heap, std::string_view device) {
  Layers layers;
  for (const Space& space : heap.spaces) {
    if (device_name(space) != device) continue;
    if (space.memory == Memory::kImported) layers.imported = &space;
    else (space.layer == Layer::kDriver ? layers.driver : layers.pytorch) = &space;
  }
  return layers;
}

void add_calls(LedgerRow& row, const Space& space) {
  row.allocations += space.allocations;
  row.frees += space.frees;
  row.failed_allocations += space.failed_allocations;
  if (row.name.empty()) row.name = space.name;
  row.total_bytes = std::max(row.total_bytes, space.total_bytes);
}

void set_peak(LedgerRow& row, const Space& space) {
  row.peak_bytes = space.peak_bytes;
  row.peak_time = space.peak_time;
  row.peak_step = space.peak_step;
}

// The least that the driver took beside the blocks. It loads code as it is needed, so a rise that is over by half of the run is the
// context's; one that goes on is not.
uint64_t context_of(const Usage& usage) {
  const std::span<const UsagePoint> all = usage.rest, late = all.last((all.size() + 1) / 2);
  const auto least = [](std::span<const UsagePoint> points) { return std::ranges::min(points, {}, &UsagePoint::rest).rest; };
  const uint64_t last = all.back().rest, rise = last - least(all), late_rise = last - least(late);
  return kOver * late_rise < rise ? least(late) : least(all);
}

// What was used was measured a moment before the end: blocks made or freed since are taken into account, so that the row adds up.
// Pools were asked at yet another moment: they have no more than what no block explains. Nor has managed memory, whose pages may be
// on the host.
void add_measured(LedgerRow& row, const Usage& usage) {
  const uint64_t rest = above(usage.used, usage.tracked), in_pools = std::min(row.pooled_bytes, rest);
  row.is_measured = true;
  row.cached_bytes -= row.pooled_bytes - in_pools;
  row.pooled_bytes = in_pools;
  row.context_bytes = std::min(context_of(usage), rest - in_pools);
  const uint64_t others = rest - in_pools - row.context_bytes;
  row.unattributed_bytes = above(others, row.managed_bytes);
  row.used_bytes = row.live_bytes - row.managed_bytes + std::min(others, row.managed_bytes) + row.cached_bytes + row.context_bytes +
                   row.unattributed_bytes;
}

uint64_t managed_bytes(const Heap& heap, const Space& space) {
  uint64_t bytes = 0;
  for (const Site& site : heap.sites) {
    if (site.kind == Kind::kManaged && &heap.spaces[site.space] == &space) bytes += site.end_bytes;
  }
  return bytes;
}

LedgerRow row_of(const Heap& heap, const std::string& device, Layers layers) {
  LedgerRow row;
  row.device = device;
  for (const Space* space : {layers.driver, layers.pytorch}) {
    if (space != nullptr) add_calls(row, *space);
  }
  uint64_t segments_at_exit = 0;
  if (layers.pytorch != nullptr) {
    set_peak(row, *layers.pytorch);
    EndTotal end = end_total(heap, *layers.pytorch);
    row.live_bytes = end.bytes;
    row.live_blocks = end.blocks;
    row.let_go = 2 * end.let_go_blocks > end.blocks;
    row.exit_bytes = layers.pytorch->live_bytes;
    const bool has_cache = layers.pytorch->memory == Memory::kDevice;
    row.cached_bytes = has_cache ? above(layers.pytorch->reserved_bytes, row.live_bytes) : 0;
    segments_at_exit = std::max(layers.pytorch->reserved_bytes, row.exit_bytes);
  }
  if (layers.driver != nullptr) {
    set_peak(row, *layers.driver);
    // Of the driver's blocks, PyTorch's segments are told already; the rest is the program's and its libraries'.
    EndTotal end = end_total(heap, *layers.driver);
    row.live_bytes += above(end.bytes, row.live_bytes + row.cached_bytes);
    row.exit_bytes += above(layers.driver->live_bytes, segments_at_exit);
    row.managed_bytes = std::min(managed_bytes(heap, *layers.driver), row.live_bytes);
    if (layers.pytorch == nullptr) row.live_blocks = end.blocks;
    // PyTorch's cudaMallocAsync back end tells what its pool holds as its own.
    if (layers.driver->memory == Memory::kDevice) {
      row.pooled_bytes = above(end.bytes + idle_in_pools(heap, layers.driver->device), row.live_bytes + row.cached_bytes);
      row.cached_bytes += row.pooled_bytes;
      row.fragmented_bytes = std::min(row.cached_bytes, fragmented_bytes(pinned_segments(heap, layers.driver->device)));
    }
  }
  if (layers.imported != nullptr) row.imported_bytes = end_total(heap, *layers.imported).bytes;
  row.used_bytes = row.live_bytes + row.cached_bytes;
  if (layers.driver != nullptr && !layers.driver->usage.rest.empty()) add_measured(row, layers.driver->usage);
  return row;
}

}  // namespace

EndTotal end_total(const Heap& heap, const Space& space) {
  EndTotal total;
  for (const Site& site : heap.sites) {
    if (site.space != &space - heap.spaces.data()) continue;
    total.let_go_blocks += static_cast<uint64_t>(std::ranges::count_if(site.survivors, &Block::let_go));
    total.bytes += site.end_bytes;
    total.blocks += site.end_blocks;
  }
  return total;
}

std::vector<LedgerRow> ledger(const Heap& heap) {
  std::vector<LedgerRow> rows;
  for (const Space& space : heap.spaces) {
    std::string device = device_name(space);
    if (std::ranges::find(rows, device, &LedgerRow::device) == rows.end()) {
      rows.push_back(row_of(heap, device, layers_of(heap, device)));
    }
  }
  return rows;
}

std::vector<HandleRow> handle_counts(const Heap& heap) {
  std::map<std::pair<std::string, Kind>, HandleRow> rows;
  for (const Site& site : heap.handles.sites) {
    const std::string device = device_name(heap.handles.spaces[site.space]);
    HandleRow& row = rows.try_emplace({device, site.kind}, HandleRow{device, site.kind}).first->second;
    row.live += site.end_blocks;
    row.made += site.allocations;
  }
  std::vector<HandleRow> list;
  for (auto& [key, row] : rows) list.push_back(std::move(row));
  return list;
}

}  // namespace vramtrack

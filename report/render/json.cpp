// The report for programs: JSON of schema vramtrack.report/1. Fields are only ever added.
#include "report/render/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "report/categories.h"
#include "report/ledger.h"
#include "report/words.h"

namespace vramtrack {
namespace {

using Json = nlohmann::ordered_json;  // fields in the order of the schema's documentation


const Space* space_at(const Heap& heap, int index) {
  return index >= 0 && static_cast<size_t>(index) < heap.spaces.size() ? &heap.spaces[index] : nullptr;
}

std::string device_of(const Heap& heap, int space) { return space_at(heap, space) ? device_name(*space_at(heap, space)) : ""; }

std::string_view layer_of(const Heap& heap, int space) {
  return space_at(heap, space) ? to_string(space_at(heap, space)->layer) : "";
}

Json location_json(const Heap& heap, const Frame& frame, const Location& at) {
  Json json = {{"kind", to_string(frame.kind)}, {"function", at.function}, {"file", at.file}, {"line", at.line}};
  if (frame.kind == FrameKind::kNative) {
    bool known = frame.module >= 0 && static_cast<size_t>(frame.module) < heap.modules.size();
    json["module"] = known ? base_name(heap.modules[frame.module].path) : "";
    json["address"] = fmt::format("{:#x}", frame.address);
  }
  json["user"] = is_user_location(heap, frame, at);
  return json;
}

// One element for each function, those inlined into a native frame included.
Json stack_json(const Heap& heap, const Stack& stack) {
  Json json = Json::array();
  for (uint32_t index : stack) {
    if (index >= heap.frames.size()) continue;
    const Frame& frame = heap.frames[index];
    if (frame.locations.empty()) json.push_back(location_json(heap, frame, {}));
    for (const Location& at : frame.locations) json.push_back(location_json(heap, frame, at));
  }
  return json;
}

Json user_line_json(const Heap& heap, const Stack& stack) {
  std::optional<Location> at = user_line(heap, stack);
  if (!at) return nullptr;
  return {{"function", at->function}, {"file", at->file}, {"line", at->line}};
}

Json finding_site_json(const Heap& heap, const FindingSite& of) {
  const Site* site = find_site(heap, of.site);
  return {{"bytes", of.bytes},
          {"blocks", of.blocks},
          {"allocations", of.allocations},
          {"frees", site ? frees_while_working(*site) : of.frees},
          {"category", of.category},
          {"api", site ? site->api : ""},
          {"user_line", user_line_json(heap, of.stack)},
          {"stack", stack_json(heap, of.stack)}};
}

int64_t whole_bytes(double bytes) { return std::isfinite(bytes) && std::abs(bytes) < 9e18 ? std::llround(bytes) : 0; }

Json finding_json(const Heap& heap, const Finding& finding) {
  Json sites = Json::array();
  for (const FindingSite& site : finding.sites) sites.push_back(finding_site_json(heap, site));
  return {{"id", finding.id},
          {"severity", to_string(finding.severity)},
          {"confidence", to_string(finding.confidence)},
          {"device", device_of(heap, finding.space)},
          {"layer", layer_of(heap, finding.space)},
          {"kind", to_string(finding.kind)},
          {"bytes", finding.bytes},
          {"blocks", finding.blocks},
          {"bytes_per_step", whole_bytes(finding.bytes_per_step)},
          {"first_step", finding.first_step},
          {"last_step", finding.last_step},
          {"title", finding.title},
          {"evidence", finding.evidence},
          {"advice", finding.advice},
          {"sites", std::move(sites)},
          {"holders", Json::array()}};
}

Json device_json(const LedgerRow& row) {
  return {{"device", row.device},
          {"name", row.name},
          {"total_bytes", row.total_bytes},
          {"ledger",
           {{"live_bytes", row.live_bytes},
            {"cached_bytes", row.cached_bytes},
            {"fragmented_bytes", row.fragmented_bytes},
            {"context_bytes", row.context_bytes},
            {"imported_bytes", row.imported_bytes},
            {"unattributed_bytes", row.unattributed_bytes},
            {"used_bytes", row.used_bytes}}},
          {"managed_bytes", row.managed_bytes},
          {"pooled_bytes", row.pooled_bytes},
          {"exit_live_bytes", row.exit_bytes},
          {"peak_bytes", row.peak_bytes},
          {"peak_time", row.peak_time},
          {"allocations", row.allocations},
          {"frees", row.frees},
          {"failed_allocations", row.failed_allocations}};
}

Json pools_json(const Heap& heap) {
  Json json = Json::array();
  for (const Pool& pool : heap.pools) {
    json.push_back({{"device", pool.device < 0 ? "pinned" : fmt::format("cuda:{}", pool.device)},
                    {"of_graphs", pool.handle == 0},
                    {"destroyed", pool.destroyed},
                    {"reserved_bytes", pool.reserved},
                    {"used_bytes", pool.used},
                    {"peak_reserved_bytes", pool.peak_reserved},
                    {"release_threshold", pool.threshold},
                    {"threshold_set_at", user_line_json(heap, pool.threshold_stack)}});
  }
  return json;
}

Json site_json(const Heap& heap, const Site& site, Moment moment) {
  return {{"bytes", bytes_at(site, moment)},
          {"blocks", blocks_at(site, moment)},
          {"allocations", site.allocations},
          {"frees", site.frees},
          {"category", category(heap, site)},
          {"device", device_of(heap, site.space)},
          {"layer", layer_of(heap, site.space)},
          {"kind", to_string(site.kind)},
          {"api", site.api},
          {"overflow", site.overflow},
          {"peak_bytes", site.peak_bytes},
          {"end_bytes", site.end_bytes},
          {"live_bytes", site.live_bytes},
          {"max_live_bytes", site.max_live_bytes},
          {"allocated_bytes", site.allocated_bytes},
          {"first_time", site.first_time},
          {"last_time", site.last_time},
          {"first_step", site.first_step},
          {"last_step", site.last_step},
          {"user_line", user_line_json(heap, site.stack)},
          {"stack", stack_json(heap, site.stack)}};
}

// Those that hold bytes at the moment, then those that hold none but allocate most often.
std::vector<const Site*> listed_sites(const Heap& heap, const JsonOptions& options) {
  std::vector<const Site*> sites = top_sites(options.selection, heap, options.moment, options.top);
  std::unordered_set<const Site*> listed(sites.begin(), sites.end());
  bool selective = options.selection.min_bytes != 0 || options.selection.kind || options.selection.layer ||
                   !options.selection.device.empty();
  if (selective) return sites;
  std::vector<const Site*> busy;
  for (const Site& site : heap.sites) {
    if (!listed.contains(&site)) busy.push_back(&site);
  }
  std::ranges::stable_sort(busy, std::ranges::greater(), &Site::allocations);
  size_t room = options.top - std::min(options.top, sites.size());
  sites.insert(sites.end(), busy.begin(), busy.begin() + static_cast<ptrdiff_t>(std::min(room, busy.size())));
  return sites;
}

// Where handles were made, those of which most are left first.
Json handle_sites_json(const Heap& heap, size_t top) {
  std::vector<const Site*> sites;
  for (const Site& site : heap.handles.sites) sites.push_back(&site);
  std::ranges::stable_sort(sites, std::ranges::greater(), &Site::end_blocks);
  if (sites.size() > top) sites.resize(top);
  Json json = Json::array();
  for (const Site* site : sites) {
    json.push_back({{"device", device_name(heap.handles.spaces[site->space])},
                    {"kind", to_string(site->kind)},
                    {"api", site->api},
                    {"live", site->end_blocks},
                    {"made", site->allocations},
                    {"destroyed", site->frees},
                    {"user_line", user_line_json(heap, site->stack)},
                    {"stack", stack_json(heap, site->stack)}});
  }
  return json;
}

Json timeline_json(const Heap& heap) {
  Json json = Json::array();
  for (const Space& space : heap.spaces) {
    for (const SeriesPoint& point : space.series) {
      json.push_back({{"device", device_name(space)},
                      {"layer", to_string(space.layer)},
                      {"time", point.time},
                      {"step", point.step},
                      {"live_min_bytes", point.live_min},
                      {"live_max_bytes", point.live_max},
                      {"reserved_bytes", point.reserved_max}});
    }
  }
  return json;
}

std::string_view event_name(IncidentKind kind) {
  switch (kind) {
    case IncidentKind::kOutOfMemory: return "out-of-memory";
    case IncidentKind::kFailedCall: return "failed-call";
    case IncidentKind::kInvalidFree: return "invalid-free";
    case IncidentKind::kReset: return "reset";
    case IncidentKind::kUnhooked: return "unhooked";
  }
  return "unknown";
}

std::string_view fault_name(FreeFault fault) {
  switch (fault) {
    case FreeFault::kNone: return "";
    case FreeFault::kUnknownPointer: return "unknown-pointer";
    case FreeFault::kDoubleFree: return "double-free";
    case FreeFault::kWrongFamily: return "wrong-family";
    case FreeFault::kGoneWithContext: return "gone-with-context";
  }
  return "";
}

Json event_json(const Heap& heap, const Incident& event) {
  Json holders = Json::array();
  for (const TopSite& top : event.top) {
    const Site* site = find_site(heap, top.site);
    if (site) holders.push_back({{"bytes", top.bytes}, {"api", site->api}, {"stack", stack_json(heap, site->stack)}});
  }
  return {{"kind", event_name(event.kind)},
          {"fault", fault_name(event.fault)},
          {"api", event.api},
          {"name", event.name},
          {"device", device_of(heap, event.space)},
          {"layer", layer_of(heap, event.space)},
          {"code", event.detail},
          {"count", event.count},
          {"first_time", event.first_time},
          {"last_time", event.last_time},
          {"first_step", event.first_step},
          {"last_step", event.last_step},
          {"address", fmt::format("{:#x}", event.address)},
          {"bytes", event.size},
          {"live_bytes", event.live_bytes},
          {"reserved_bytes", event.reserved_bytes},
          {"free_bytes", 0},  // not told; the schema only ever gains fields
          {"total_bytes", event.total_bytes},
          {"stack", stack_json(heap, event.stack)},
          {"top", std::move(holders)}};
}

Json lost_json(const Heap& heap) {
  std::string reason = heap.process.stop_reason;
  if (reason.empty() && !heap.damage.empty()) reason = "damaged capture: " + heap.damage[0];
  return {{"events", heap.process.lost_events}, {"reason", reason}};
}

Json process_json(const ReportedProcess& reported, const JsonOptions& options) {
  const Heap& heap = reported.heap;
  const Process& process = heap.process;
  Json json = {{"pid", process.pid},   {"ppid", process.ppid}, {"argv", process.argv},
               {"exe", process.exe},   {"host", process.host}, {"rank", process.rank},
               {"start_time", process.start_time}, {"duration", process.duration}, {"ended", process.ended},
               {"steps", process.steps}, {"step_source", to_string(process.step_source)}};
  json["complete"] = process.lost_events == 0 && process.stop_reason.empty() && heap.damage.empty();
  json["lost"] = lost_json(heap);
  json["native_unwinds"] = heap.process.native_unwinds;
  json["python_version"] = process.python_version;
  json["torch_version"] = "";  // not known; the schema only ever gains fields
  json["notes"] = process.notes;
  json["damage"] = heap.damage;
  json["suppressed"] = reported.suppressed;
  json["devices"] = Json::array();
  for (const LedgerRow& row : ledger(heap)) json["devices"].push_back(device_json(row));
  json["pools"] = pools_json(heap);
  json["handles"] = Json::array();
  for (const HandleRow& row : handle_counts(heap)) {
    json["handles"].push_back({{"device", row.device}, {"kind", to_string(row.kind)}, {"live", row.live}, {"made", row.made}});
  }
  json["handle_sites"] = handle_sites_json(heap, options.top);
  json["findings"] = Json::array();
  for (const Finding& finding : reported.findings) {
    if (is_selected(options.selection, heap, finding)) json["findings"].push_back(finding_json(heap, finding));
  }
  json["sites"] = Json::array();
  for (const Site* site : listed_sites(heap, options)) json["sites"].push_back(site_json(heap, *site, options.moment));
  json["timeline"] = timeline_json(heap);
  json["events"] = Json::array();
  for (const Incident& event : heap.incidents) json["events"].push_back(event_json(heap, event));
  return json;
}

}  // namespace

std::string render_json(std::span<const ReportedProcess> processes, const JsonOptions& options) {
  Json json = {{"schema", "vramtrack.report/1"}, {"processes", Json::array()}};
  for (const ReportedProcess& process : processes) json["processes"].push_back(process_json(process, options));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace vramtrack

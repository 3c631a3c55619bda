// What of the text report is not a finding: the process, the ledger, the sites at the peak, what was not seen.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <ranges>

#include "report/categories.h"
#include "report/ledger.h"
#include "report/render/printable.h"
#include "report/render/text_sections.h"
#include "report/words.h"

namespace vramtrack {
namespace {

std::string command_text(const Process& process) {
  std::string text;
  for (const std::string& argument : process.argv) text += (text.empty() ? "" : " ") + printable(argument);
  return text.empty() ? printable(process.exe) : text;
}

std::string end_text(const Process& process) {
  if (process.ended == "exit:0") return "ended normally";
  if (process.ended == "running") return "still running";
  if (process.ended.starts_with("exit:")) return "ended with exit code " + process.ended.substr(5);
  if (process.ended.starts_with("signal:")) return "killed by signal " + process.ended.substr(7);
  return "how it ended is not known";
}

std::string identity_text(const Process& process) {
  std::string text = fmt::format("pid {}", process.pid);
  if (process.rank >= 0) text += fmt::format(", rank {}", process.rank);
  if (!process.host.empty()) text += fmt::format(" on {}", printable(process.host));
  text += fmt::format(", {} {:.1f} s", process.end_time_known ? "ran" : "last seen after", process.duration);
  if (process.steps != 0) {
    text += fmt::format(", {} (seen by {})", count_text(process.steps, "step"), to_string(process.step_source));
  }
  return text + ", " + end_text(process);
}

void write_heading(Page& page, std::string_view text) {
  page.blank();
  page.paragraph("", text, Style::kBold);
}

void write_amount(Page& page, std::string_view name, uint64_t bytes, std::string_view comment) {
  std::string first = fmt::format("  {:<8}{:>11}", name, size_text(static_cast<double>(bytes)));
  page.paragraph(comment.empty() ? first : first + "   ", comment);
}

std::string peak_text(const LedgerRow& row) {
  std::string text = fmt::format("reached after {:.1f} s", row.peak_time);
  return row.peak_step == 0 ? text : text + fmt::format(", in step {}", row.peak_step);
}

// A program that frees all on its way out held it all the same.
std::string live_text(const LedgerRow& row, bool running) {
  if (row.live_bytes == 0) return {};
  if (running) return fmt::format("in {} by now", count_text(row.live_blocks, "block"));
  if (row.let_go && row.exit_bytes == 0) {
    return fmt::format("in {} at its last allocation, let go after it", count_text(row.live_blocks, "block"));
  }
  std::string text = fmt::format("in {} at the end", count_text(row.live_blocks, "block"));
  if (row.exit_bytes == 0) return text + " of its work, freed on its way out";
  if (row.exit_bytes == row.live_bytes) return text;
  return text + fmt::format(" of its work, {} when it exited", size_text(static_cast<double>(row.exit_bytes)));
}

std::string cached_text(const LedgerRow& row) {
  std::string text = row.pooled_bytes == 0 ? "held by PyTorch's allocator for its next tensors"
                     : row.pooled_bytes == row.cached_bytes
                         ? "held by CUDA's memory pools, in no block"
                         : fmt::format("{} held by PyTorch's allocator, {} by CUDA's memory pools",
                                       size_text(static_cast<double>(row.cached_bytes - row.pooled_bytes)),
                                       size_text(static_cast<double>(row.pooled_bytes)));
  if (row.fragmented_bytes != 0) {
    text += fmt::format("; {} of it beside blocks, which `empty_cache()` cannot give back", size_text(static_cast<double>(row.fragmented_bytes)));
  }
  return text;
}

bool has_something(const LedgerRow& row) {
  return row.allocations + row.failed_allocations + row.used_bytes + row.imported_bytes != 0;
}

void write_ledger_row(Page& page, const LedgerRow& row, bool running) {
  std::string device = printable(row.device);
  if (!row.name.empty()) device += ", " + printable(row.name);
  if (row.total_bytes != 0) device += fmt::format(", {} in all", size_text(static_cast<double>(row.total_bytes)));
  write_heading(page, "Memory of this process on " + device);
  write_amount(page, "live", row.live_bytes, live_text(row, running));
  if (row.cached_bytes != 0) write_amount(page, "cached", row.cached_bytes, cached_text(row));
  if (row.context_bytes != 0) write_amount(page, "context", row.context_bytes, "the CUDA context, loaded code, what the driver keeps");
  if (row.unattributed_bytes != 0) write_amount(page, "other", row.unattributed_bytes, "taken since, without an allocation");
  if (row.managed_bytes != 0) write_amount(page, "managed", row.managed_bytes, "of what is live: on the device only as far as it was used there");
  if (row.is_measured) write_amount(page, "used", row.used_bytes, "as nvidia-smi counts it");
  else if (row.cached_bytes != 0) write_amount(page, "used", row.used_bytes, "live and cached");
  if (row.imported_bytes != 0) write_amount(page, "imported", row.imported_bytes, "of other processes, mapped here: not this process's");
  write_amount(page, "peak", row.peak_bytes, peak_text(row));
  std::string calls = fmt::format("{}, {}", count_text(row.allocations, "allocation"), count_text(row.frees, "free"));
  if (row.failed_allocations != 0) calls += fmt::format(", {} refused", row.failed_allocations);
  page.line("  " + page.styled(Style::kDim, calls));
}

// Of the place that the row is read for: the user's line, else the function called.
std::string site_place(TextContext& context, const Heap& heap, const Site& site) {
  if (site.overflow) return "stacks beyond the bound on distinct stacks";
  if (std::optional<Location> at = user_line(heap, site.stack)) {
    std::string place = place_text(context.options, at->file, at->line);
    std::string function = printable(at->function);
    return place.empty() ? function : fmt::format("{}  {}", place, function);
  }
  for (uint32_t index : site.stack) {
    if (index < heap.frames.size()) return "in " + printable(owner(heap, heap.frames[index]));
  }
  return "no stack could be taken";
}

// Of what stood at the moment: where most of it lives on, the others of the site are of no interest.
std::string site_kind(const Heap& heap, const Site& site, Moment moment) {
  const bool lives_on = 2 * site.end_blocks >= blocks_at(site, moment);
  std::string_view is = lives_on ? category_of_kept(heap, site) : category(heap, site);
  if (!is.empty()) return std::string(is);
  return site.api.empty() ? std::string(to_string(site.kind)) : printable(site.api);
}

// Sites of one line and one purpose: a person sees one place, whatever operators were called there.
struct SiteRow {
  std::string place, kind;
  uint64_t bytes = 0, blocks = 0;
};

std::vector<SiteRow> site_rows(TextContext& context, const Heap& heap, const std::vector<const Site*>& sites) {
  std::vector<SiteRow> rows;
  std::map<std::pair<std::string, std::string>, size_t> row_of;
  for (const Site* site : sites) {
    SiteRow row{site_place(context, heap, *site), site_kind(heap, *site, context.options.moment)};
    auto [at, is_new] = row_of.try_emplace({row.place, row.kind}, rows.size());
    if (is_new) rows.push_back(row);
    rows[at->second].bytes += bytes_at(*site, context.options.moment);
    rows[at->second].blocks += blocks_at(*site, context.options.moment);
  }
  std::ranges::stable_sort(rows, std::ranges::greater(), &SiteRow::bytes);
  return rows;
}

constexpr size_t kLeastPlace = 24;  // columns; on a narrower page the place has a line of its own

void write_site_row(TextContext& context, const SiteRow& site, uint64_t whole) {
  double share = whole == 0 ? 0 : 100.0 * static_cast<double>(site.bytes) / static_cast<double>(whole);
  std::string row = fmt::format("  {:>10} {:>4.0f}% {:>13}  {:<16} ", size_text(static_cast<double>(site.bytes)), share,
                                count_text(site.blocks, "block"), cut_right(site.kind, 16));
  if (context.page.width() >= columns(row) + kLeastPlace) {
    context.page.line(row + cut_right(site.place, context.page.width() - columns(row)));
  } else {
    context.page.line(row.substr(0, row.find_last_not_of(' ') + 1));
    context.page.line("             " + cut_left(site.place, context.page.width() - 13));
  }
}

std::string table_heading(const Space& space, Moment moment, uint64_t bytes) {
  std::string what = space.layer == Layer::kPytorch ? "PyTorch's tensors on " : "blocks of the CUDA driver on ";
  if (space.memory == Memory::kImported) what = "other processes' memory mapped on ";
  std::string device = device_name(space);
  if (space.memory == Memory::kPinnedHost || space.memory == Memory::kCpu) device = fmt::format("the host ({})", device);
  return fmt::format("{} {}{}: {}", moment == Moment::kPeak ? "At the peak of" : "At the end of", what, device,
                     size_text(static_cast<double>(bytes)));
}

bool is_shown(const Selection& selection, const Space& space) {
  return selection.device.empty() || selection.device == device_name(space);
}

}  // namespace

std::string place_text(const TextOptions& options, const std::string& file, int line) {
  if (file.empty()) return {};
  std::string shown = printable(file);
  const std::string base = printable(options.base_directory) + "/";
  if (base.size() > 1 && shown.starts_with(base)) shown = shown.substr(base.size());
  return line == 0 ? shown : fmt::format("{}:{}", shown, line);
}

void write_process_heading(TextContext& context, const ReportedProcess& process) {
  Page& page = context.page;
  page.line(page.styled(Style::kBold, "vramtrack  ") +
            page.styled(Style::kBold, cut_right(command_text(process.heap.process), page.width() - 11)));
  page.paragraph("", identity_text(process.heap.process), Style::kDim);
  page.blank();
}

void write_ledger(TextContext& context, const Heap& heap) {
  std::vector<LedgerRow> rows = ledger(heap);
  if (rows.empty()) write_heading(context.page, "No allocation was seen.");
  for (const LedgerRow& row : rows) {
    if (context.options.selection.device.empty() || context.options.selection.device == row.device) {
      if (has_something(row)) write_ledger_row(context.page, row, heap.process.ended == "running");
    }
  }
}

void write_handles(TextContext& context, const Heap& heap) {
  std::map<std::string, std::string> of_device;
  for (const HandleRow& row : handle_counts(heap)) {
    std::string& text = of_device[row.device];
    if (row.live != 0) text += (text.empty() ? "" : ", ") + count_text(row.live, noun_of(row.kind));
  }
  for (const auto& [device, text] : of_device) {
    const bool shown = context.options.selection.device.empty() || context.options.selection.device == device;
    if (text.empty() || !shown) continue;
    write_heading(context.page, "Handles on " + device + " at the end, whose memory is not in these sums");
    context.page.paragraph("  ", text);
  }
}

void write_top_sites(TextContext& context, const Heap& heap) {
  for (const Space& space : heap.spaces) {
    if (!is_shown(context.options.selection, space)) continue;
    Selection of_space = context.options.selection;
    if (of_space.layer && *of_space.layer != space.layer) continue;
    of_space.space = &space - heap.spaces.data();
    Moment moment = context.options.moment;
    std::vector<SiteRow> rows = site_rows(context, heap, top_sites(of_space, heap, moment, SIZE_MAX));
    if (rows.empty()) continue;
    uint64_t whole = moment == Moment::kPeak ? space.peak_bytes : end_total(heap, space).bytes;
    write_heading(context.page, table_heading(space, moment, whole));
    for (const SiteRow& row : rows | std::views::take(context.options.top)) write_site_row(context, row, whole);
  }
}

namespace {

// Memory functions that are known and not recorded.
std::string unhooked_text(const Heap& heap) {
  std::set<std::string> names;
  for (const Incident& incident : heap.incidents) {
    if (incident.kind == IncidentKind::kUnhooked) names.insert(incident.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

void write_unseen(TextContext& context, const Heap& heap) {
  Page& page = context.page;
  auto item = [&](std::string_view text) { page.paragraph("  - ", printable(text), Style::kDim); };
  write_heading(page, "What this report cannot see");
  if (heap.process.lost_events != 0) item(fmt::format("{} allocations and frees that were not recorded", heap.process.lost_events));
  if (!heap.process.stop_reason.empty()) item(heap.process.stop_reason);
  for (const std::string& damage : heap.damage) item("damaged capture: " + damage);
  for (const std::string& note : heap.process.notes) item(note);
  if (std::string names = unhooked_text(heap); !names.empty()) {
    item("what these functions make, which the program or a library of it has looked up: " + names);
  }
  const bool is_measured = std::ranges::any_of(heap.spaces, [](const Space& space) { return !space.usage.rest.empty(); });
  const char* contexts = is_measured ? "" : " and CUDA contexts";
  item(fmt::format("other processes' memory{}", contexts));
}

}  // namespace vramtrack

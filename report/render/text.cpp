// The report for a person: findings first, worst first; then where the memory is; then what stood at the peak.
#include "report/render/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/render/printable.h"
#include "report/render/text_sections.h"
#include "report/words.h"

namespace vramtrack {
namespace {

// "Found 1 leak, 2 wastes of memory, 1 note".
void write_verdict(TextContext& context, const ReportedProcess& process, std::span<const Finding* const> shown) {
  auto count = [&](Severity severity) { return std::ranges::count(shown, severity, [](auto* f) { return f->severity; }); };
  std::vector<std::string> parts;
  auto part = [&](Severity severity, Style style, std::string_view one, std::string_view many) {
    auto number = count(severity);
    if (number != 0) parts.push_back(context.page.styled(style, fmt::format("{} {}", number, number == 1 ? one : many)));
  };
  part(Severity::kLeak, Style::kRed, "leak", "leaks");
  part(Severity::kWaste, Style::kYellow, "waste of memory", "wastes of memory");
  part(Severity::kInfo, Style::kGreen, "note", "notes");
  std::string verdict;
  for (const std::string& text : parts) verdict += (verdict.empty() ? "Found " : ", ") + text;
  const size_t hidden = process.findings.size() - shown.size();
  const bool damaged = !process.heap.damage.empty();
  if (parts.empty()) {
    verdict = hidden != 0 ? fmt::format("Nothing to show: {} left out, as was asked for.", count_text(hidden, "finding"))
              : damaged   ? "No leak and no waste was found in what could be read."
                          : context.page.styled(Style::kGreen, "No leak and no waste was found.");
  }
  if (process.suppressed != 0) verdict += fmt::format(" ({} suppressed)", process.suppressed);
  context.page.line(verdict);
  if (damaged) context.page.line("The capture is damaged: a leak may be missing here, or look smaller. See the end.");
}

std::vector<const Finding*> selected_findings(const ReportedProcess& process, const Selection& selection) {
  std::vector<const Finding*> shown;
  for (const Finding& finding : process.findings) {
    if (is_selected(selection, process.heap, finding)) shown.push_back(&finding);
  }
  return shown;
}

void write_process(TextContext& context, const ReportedProcess& process) {
  std::vector<const Finding*> findings = selected_findings(process, context.options.selection);
  write_process_heading(context, process);
  write_verdict(context, process, findings);
  for (const Finding* finding : findings) write_finding(context, process.heap, *finding);
  write_ledger(context, process.heap);
  write_handles(context, process.heap);
  write_top_sites(context, process.heap);
  write_unseen(context, process.heap);
}

// Workers of a data loader and the like: processes that others of the report started, with no leak and no waste. Their notes are not
// worth a page; `--format json` has them.
bool is_quiet_child(std::span<const ReportedProcess> processes, const ReportedProcess& process) {
  const Process& it = process.heap.process;
  const bool is_child = std::ranges::any_of(processes, [&](const ReportedProcess& other) {
    return other.heap.process.pid == it.ppid && other.heap.process.host == it.host;
  });
  const bool is_complete = it.lost_events == 0 && it.stop_reason.empty() && process.heap.damage.empty();
  const bool only_notes = std::ranges::all_of(process.findings, [](const Finding& finding) { return finding.severity == Severity::kInfo; });
  return is_child && is_complete && only_notes && process.suppressed == 0 && it.ended != "running";
}

// "Also recorded, and no leak or waste found: 6 child processes (pid 71, 72, ...), at most 16.5 KiB at the peak"
void write_quiet_children(TextContext& context, std::span<const ReportedProcess* const> quiet) {
  constexpr size_t kMostPids = 8;
  uint64_t peak = 0;
  std::string pids;
  for (size_t i = 0; i < quiet.size(); ++i) {
    for (const Space& space : quiet[i]->heap.spaces) peak = std::max(peak, space.peak_bytes);
    if (i < kMostPids) pids += fmt::format("{}{}", i == 0 ? "" : ", ", quiet[i]->heap.process.pid);
  }
  if (quiet.size() > kMostPids) pids += ", ...";
  context.page.blank();
  context.page.paragraph("", fmt::format("Also recorded, and no leak or waste found: {} (pid {}), {}{} at the peak",
                                         quiet.size() == 1 ? "a child process" : fmt::format("{} child processes", quiet.size()), pids,
                                         quiet.size() == 1 ? "" : "at most ", size_text(static_cast<double>(peak))));
}

}  // namespace

std::string render_text(std::span<const ReportedProcess> processes, const TextOptions& options) {
  Page page(options.width, options.color);
  SourceLines sources(options.source_root);
  TextContext context{page, options, sources};
  std::vector<const ReportedProcess*> quiet;
  for (const ReportedProcess& process : processes) {
    if (is_quiet_child(processes, process)) {
      quiet.push_back(&process);
      continue;
    }
    page.blank();
    write_process(context, process);
  }
  if (!quiet.empty()) write_quiet_children(context, quiet);
  return page.text();
}

}  // namespace vramtrack

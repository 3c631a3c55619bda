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

}  // namespace

std::string render_text(std::span<const ReportedProcess> processes, const TextOptions& options) {
  Page page(options.width, options.color);
  SourceLines sources(options.source_root);
  TextContext context{page, options, sources};
  for (const ReportedProcess& process : processes) {
    page.blank();
    write_process(context, process);
  }
  return page.text();
}

}  // namespace vramtrack

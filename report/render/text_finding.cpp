// One finding on the page: verdict, size and rate, the user's line, the evidence, the stacks, the fix.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "report/categories.h"
#include "report/render/printable.h"
#include "report/render/stack_lines.h"
#include "report/render/text_sections.h"
#include "report/words.h"

namespace vramtrack {
namespace {

constexpr size_t kMaxSites = 3;
constexpr size_t kMaxFunctionColumns = 36;

struct Verdict {
  std::string_view word;
  Style style;
};

Verdict verdict(Severity severity) {
  switch (severity) {
    case Severity::kLeak: return {"LEAK", Style::kRed};
    case Severity::kWaste: return {"WASTE", Style::kYellow};
    case Severity::kInfo: return {"NOTE", Style::kGreen};
  }
  return {"NOTE", Style::kGreen};
}

std::string where_text(const Heap& heap, const Finding& finding) {
  if (finding.space < 0 || static_cast<size_t>(finding.space) >= heap.spaces.size()) return "";
  const Space& space = heap.spaces[finding.space];
  if (is_handle(finding.kind)) return fmt::format(", {}s on {}", noun_of(finding.kind), device_name(space));
  std::string layer = space.layer == Layer::kPytorch ? "PyTorch tensors" : fmt::format("{} memory", finding.kind == Kind::kGraphMemory ? "graph" : to_string(finding.kind));
  return fmt::format(", {} on {}", layer, device_name(space));
}

std::string blocks_text(const Finding& finding) {
  return count_text(finding.blocks, is_handle(finding.kind) ? noun_of(finding.kind) : "block");
}

std::string amount_text(const Finding& finding) {
  std::string text;
  if (finding.bytes != 0) text = size_text(static_cast<double>(finding.bytes));
  if (finding.blocks != 0) text += fmt::format("{}{}", text.empty() ? "" : " in ", blocks_text(finding));
  if (finding.bytes_per_step > 0) text += fmt::format(", {} more each step", size_text(finding.bytes_per_step));
  if (!text.empty() && finding.last_step != 0) {
    text += finding.first_step == finding.last_step ? fmt::format(", all in step {}", finding.last_step)
                                                    : fmt::format(", steps {} to {}", finding.first_step, finding.last_step);
  }
  return text;
}

// The line a person must look at, with its text: the reason the report is read.
void write_user_line(TextContext& context, const Heap& heap, const Finding& finding) {
  if (finding.sites.empty()) return;
  std::optional<Location> at = user_line(heap, finding.sites[0].stack);
  if (!at) return;
  std::string function = printable(at->function);
  std::string place = place_text(context.options, at->file, at->line);
  if (place.empty()) {
    context.page.paragraph("  in ", function, Style::kBold);
    return;
  }
  std::string in = function.empty() || function == "<module>" ? "" : "  in " + cut_right(function, context.page.width() / 2 - 8);
  size_t room = context.page.width() - columns(in) - 2;
  context.page.line("  " + context.page.styled(Style::kBold, cut_left(place, room)) + context.page.styled(Style::kDim, in));
  std::string source = printable(context.sources.line(at->file, at->line));
  if (source.empty()) return;
  std::string number = fmt::format("  {:>6} | ", at->line);
  context.page.line(context.page.styled(Style::kDim, number) +
                    context.page.styled(Style::kCyan, cut_right(source, context.page.width() - number.size())));
}

void write_stack(TextContext& context, const Heap& heap, const Stack& stack) {
  constexpr std::string_view kIndent = "        ";
  if (stack.empty()) context.page.line(std::string(kIndent) + context.page.styled(Style::kDim, "no stack could be taken"));
  std::vector<StackLine> lines = fold_stack(heap, stack);
  size_t function_width = 0;
  for (const StackLine& line : lines) {
    if (line.is_user) function_width = std::max(function_width, std::min(columns(line.function), kMaxFunctionColumns));
  }
  for (const StackLine& line : lines) {
    if (!line.is_user) {
      size_t room = context.page.width() - kIndent.size();
      context.page.line(std::string(kIndent) + context.page.styled(Style::kDim, cut_right(line.function, room)));
      continue;
    }
    std::string function = cut_right(line.function, kMaxFunctionColumns);
    std::string padding(function_width - columns(function) + 2, ' ');
    size_t room = context.page.width() - kIndent.size() - function_width - 2;
    std::string place = cut_left(place_text(context.options, line.file, line.line), room);
    context.page.line(place.empty() ? std::string(kIndent) + function : std::string(kIndent) + function + padding + place);
  }
}

// Sites that a person cannot tell apart, such as operators of one line: their stacks are folded to the same text.
struct SiteEntry {
  const FindingSite* like;  // the first of them
  const Site* site;         // null: no allocation site
  uint64_t bytes = 0, blocks = 0, allocations = 0, frees = 0;
  size_t sites = 0;
};

std::string folded_text(const Heap& heap, const Stack& stack) {
  std::string text;
  for (const StackLine& line : fold_stack(heap, stack)) text += fmt::format("{}\n{}:{}\n", line.function, line.file, line.line);
  return text;
}

// The first names the line to look at; the others are by size.
std::vector<SiteEntry> entries(const Heap& heap, const Finding& finding) {
  std::vector<SiteEntry> list;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> known;
  for (const FindingSite& of : finding.sites) {
    const Site* site = find_site(heap, of.site);
    const auto [at, is_new] = known.try_emplace({folded_text(heap, of.stack), of.category, site != nullptr ? site->api : ""}, list.size());
    if (is_new) list.push_back({&of, site});
    SiteEntry& entry = list[at->second];
    ++entry.sites;
    entry.bytes += of.bytes, entry.blocks += of.blocks, entry.allocations += of.allocations;
    entry.frees += site != nullptr ? frees_while_working(*site) : of.frees;
  }
  if (list.size() > 2) std::ranges::stable_sort(list.begin() + 1, list.end(), std::greater<>(), &SiteEntry::bytes);
  return list;
}

std::string entry_text(const SiteEntry& entry) {
  const Site* site = entry.site;
  const bool handle = site != nullptr && is_handle(site->kind);
  std::vector<std::string> parts;
  if (entry.bytes != 0 || entry.blocks != 0) {
    const std::string count = count_text(entry.blocks, handle ? noun_of(site->kind) : "block");
    const std::string at = entry.sites > 1 ? " at " + count_text(entry.sites, "site") : "";
    const std::string size = size_text(static_cast<double>(entry.bytes));
    parts.push_back(handle ? count : entry.blocks == 0 ? size : fmt::format("{} in {}{}", size, count, at));
  }
  const std::string& category = entry.like->category;
  if (!category.empty() && category != "other") parts.push_back(printable(category));
  if (entry.allocations != 0) {
    const std::string_view made = handle ? "made" : "allocated", unmade = handle ? "destroyed" : "freed";
    parts.push_back(fmt::format("{} {}, {} {}", entry.allocations, made, entry.frees == 0 ? "none" : std::to_string(entry.frees), unmade));
  }
  if (site != nullptr && !site->api.empty()) parts.push_back("by " + printable(site->api));
  if (site != nullptr && site->overflow) parts.push_back("all stacks beyond the bound on distinct stacks");
  return fmt::format("{}", fmt::join(parts, ", "));
}

void write_sites(TextContext& context, const Heap& heap, const Finding& finding) {
  if (finding.sites.empty()) return;
  context.page.blank();
  context.page.line("  " + context.page.styled(Style::kBold, finding.sites[0].site == 0 ? "Where" : is_handle(finding.kind) ? "Made by" : "Allocated by"));
  const std::vector<SiteEntry> list = entries(heap, finding);
  size_t shown = std::min(list.size(), kMaxSites);
  for (size_t i = 0; i < shown; ++i) {
    std::string text = entry_text(list[i]);
    if (!text.empty()) context.page.paragraph("    ", text);
    write_stack(context, heap, list[i].like->stack);
  }
  if (shown == list.size()) return;
  uint64_t rest = 0;
  size_t sites = 0;
  for (size_t i = shown; i < list.size(); ++i) rest += list[i].bytes, sites += list[i].sites;
  context.page.line("    " + context.page.styled(Style::kDim, fmt::format("and {} with {}, in --format json",
                                                                          count_text(sites, "more site"),
                                                                          size_text(static_cast<double>(rest)))));
}

}  // namespace

void write_finding(TextContext& context, const Heap& heap, const Finding& finding) {
  Page& page = context.page;
  Verdict is = verdict(finding.severity);
  page.blank();
  std::string word = fmt::format("{:<6}", is.word);
  bool first = true;
  for (const std::string& part : wrap(printable(finding.title), page.width() - word.size())) {
    page.line((first ? page.styled(is.style, word) : std::string(word.size(), ' ')) + page.styled(Style::kBold, part));
    first = false;
  }
  page.paragraph("      ", fmt::format("{}, {} confidence{}", printable(finding.id), to_string(finding.confidence),
                                       where_text(heap, finding)), Style::kDim);
  if (std::string size = amount_text(finding); !size.empty()) page.paragraph("      ", size);
  page.blank();
  write_user_line(context, heap, finding);
  if (!finding.evidence.empty()) {
    page.blank();
    page.line("  " + page.styled(Style::kBold, "Why"));
    for (const std::string& evidence : finding.evidence) page.paragraph("    - ", printable(evidence));
  }
  write_sites(context, heap, finding);
  if (!finding.advice.empty()) {
    page.blank();
    page.line("  " + page.styled(Style::kBold, "What to do"));
    page.paragraph("    ", printable(finding.advice));
  }
}

}  // namespace vramtrack

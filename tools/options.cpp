// The options of the command line: their names, their words, their help.
#include "tools/options.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "report/render/printable.h"

namespace vramtrack {
namespace {

// In the order in which help lists them.
template <typename Value>
using Words = std::vector<std::pair<std::string, Value>>;

template <typename Value>
Value value_of(const Words<Value>& words, const std::string& word) {
  return std::ranges::find(words, word, &std::pair<std::string, Value>::first)->second;
}

const Words<Severity> kSeverities = {{"leak", Severity::kLeak}, {"waste", Severity::kWaste}, {"info", Severity::kInfo}};
const Words<Color> kColors = {{"auto", Color::kAuto}, {"always", Color::kAlways}, {"never", Color::kNever}};
const Words<Moment> kMoments = {{"end", Moment::kEnd}, {"peak", Moment::kPeak}};

// An option whose value is one of `words`.
template <typename Value>
CLI::Option* add_choice(CLI::App& app, const std::string& name, const Words<Value>& words, Value& value,
                        const std::string& help) {
  std::vector<std::string> names;
  for (const auto& word : words) names.push_back(word.first);
  return app.add_option_function<std::string>(name, [&words, &value](const std::string& word) { value = value_of(words, word); }, help)
      ->check(CLI::IsMember(names))
      ->option_text(CLI::detail::join(names, "|"));
}

template <typename Enum>
void add_enum_filter(CLI::App& app, const std::string& name, Enum last, std::optional<Enum>& value, const std::string& help) {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(last); ++i) names.emplace_back(to_string(static_cast<Enum>(i)));
  app.add_option_function<std::string>(
         name,
         [names, &value](const std::string& word) {
           value = static_cast<Enum>(std::ranges::find(names, word) - names.begin());
         },
         help)
      ->check(CLI::IsMember(names))
      ->option_text(CLI::detail::join(names, "|"));
}

// "16M" to bytes; answers what is wrong with it, or "".
std::string size_value(std::string& text) {
  const size_t digits = text.find_first_not_of("0123456789");
  const std::string unit = digits == std::string::npos ? "" : text.substr(digits);
  static const std::map<std::string, int> kShifts = {{"", 0}, {"K", 10}, {"k", 10}, {"M", 20}, {"m", 20}, {"G", 30}, {"g", 30}};
  const auto known = kShifts.find(unit);
  const bool is_size = digits != 0 && !text.empty() && text.size() <= 12 && known != kShifts.end();
  if (!is_size) return fmt::format("\"{}\" is no size: a number, with K, M or G behind it for KiB, MiB or GiB", text);
  const unsigned long long value = std::stoull(text);
  if (value > ~0ull >> known->second) return text + " is more than there can be";
  text = std::to_string(value << known->second);
  return {};
}

// "0" to the name that reports give it, "cuda:0"; answers what is wrong with it, or "".
std::string device_name_of(std::string& text) {
  const std::string ordinal = text.starts_with("cuda:") ? text.substr(5) : text;
  if (text == "pinned" || text == "cpu") return {};
  const bool is_ordinal = !ordinal.empty() && ordinal.size() <= 4 && ordinal.find_first_not_of("0123456789") == std::string::npos;
  if (!is_ordinal) return fmt::format("\"{}\" is no device: its number, or cuda:N, pinned or cpu as reports name it", text);
  text = "cuda:" + ordinal;
  return {};
}

void add_judgement_options(CLI::App& app, ReportOptions& options) {
  app.add_option("--suppressions", options.suppressions, "leave out the findings that FILE lists")->option_text("FILE");
  app.add_option("--error-exitcode", options.error_exitcode, "exit with N if a finding was made")
      ->check(CLI::Range(0, 255))
      ->option_text("N");
  add_choice(app, "--fail-on", kSeverities, options.fail_on, "the least finding that counts for it (default leak; info is what the report marks NOTE)");
}

void add_machine_options(CLI::App& app, ReportOptions& options) {
  add_choice(app, "--color", kColors, options.color, "colours in text (default auto)");
  app.add_option("--source-root", options.source_root, "where sources are that are not at their place")->option_text("DIR");
  app.add_option("--debug-path", options.debug_path, "searched first for modules and debug files")->option_text("DIR");
  app.add_option("--top", options.top, "sites listed (default 10 in text, 200 in json)")
      ->check(CLI::Range(0, 1'000'000))
      ->option_text("N");
}

void add_selection_options(CLI::App& app, Selection& selection) {
  app.add_option("--min-bytes", selection.min_bytes, "leave out what is smaller")
      ->transform(CLI::Validator(size_value, ""))
      ->option_text("N[K|M|G]");
  app.add_option("--device", selection.device, "only this device: a GPU's number, or pinned or cpu")
      ->transform(CLI::Validator(device_name_of, ""))
      ->option_text("N");
  add_enum_filter(app, "--kind", kLastKind, selection.kind, "only allocations of this kind");
  add_enum_filter(app, "--layer", Layer::kPytorch, selection.layer, "only what this layer allocated");
}

}  // namespace

void add_run_options(CLI::App& app, RunOptions& options) {
  static const Words<Format> kFormats = {{"text", Format::kText}, {"json", Format::kJson}, {"none", Format::kNone}};
  app.add_option("-o,--output", options.output,
                 "where captures go: a directory, or a pattern with %n program, %p pid, %r rank, %h host "
                 "(default %n.%p.vtrk in the current directory)")
      ->option_text("DIR|PATTERN");
  app.add_flag("--cpu", options.cpu, "record PyTorch's CPU tensors too");
  app.add_option("--stacks", options.stacks, "which frames are recorded (default both)")
      ->check(CLI::IsMember({"python", "native", "both", "none"}))
      ->option_text("python|native|both|none");
  app.add_option("--native-depth", options.native_depth, "native frames kept of a stack (default 40, at most 128)")
      ->check(CLI::Range(1u, 128u))
      ->option_text("N");
  app.add_flag("--no-children", options.no_children, "record PROGRAM only, not the processes it starts");
  add_choice(app, "--format", kFormats, options.report.format, "of the report (default text)");
  app.add_option("--report-file", options.report.output, "write the report to FILE, not to stderr")->option_text("FILE");
  add_judgement_options(app, options.report);
  add_machine_options(app, options.report);
  app.add_flag("-q,--quiet", options.quiet, "nothing on stderr but errors");
  app.add_flag("-v,--verbose", options.verbose, "say what is done");
}

void add_report_options(CLI::App& app, ReportCommandOptions& options) {
  static const Words<Format> kFormats = {{"text", Format::kText}, {"json", Format::kJson}};
  app.add_option("CAPTURE", options.captures, "captures, or directories of captures (*.vtrk)")->required()->option_text("...");
  add_choice(app, "--format", kFormats, options.report.format, "of the report (default text)");
  app.add_option("-o,--output", options.report.output, "write the report to FILE")->option_text("FILE");
  add_choice(app, "--at", kMoments, options.report.moment, "the moment the table of sites shows (default peak)");
  add_selection_options(app, options.report.selection);
  add_judgement_options(app, options.report);
  add_machine_options(app, options.report);
}

void add_doctor_options(CLI::App& app, DoctorOptions& options) {
  app.add_option("PROGRAM", options.program, "can it be traced as well?")->option_text(" ");
}

size_t program_position(const CLI::App& run, const std::vector<std::string>& arguments) {
  size_t i = 0;
  while (i < arguments.size()) {
    const std::string& argument = arguments[i];
    if (argument == "--") return i + 1;
    if (!argument.starts_with("-") || argument == "-") return i;
    bool value_is_in_it = argument.find('=') != std::string::npos || (!argument.starts_with("--") && argument.size() > 2);
    const CLI::Option* option = run.get_option_no_throw(argument);
    bool takes_next = !value_is_in_it && option != nullptr && option->get_expected_min() > 0;
    i += takes_next ? 2 : 1;
  }
  return arguments.size();
}

void say(const std::string& message) { std::fprintf(stderr, "vramtrack: %s\n", printable(message).c_str()); }

}  // namespace vramtrack

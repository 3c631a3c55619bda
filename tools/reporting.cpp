// From captures to a report in the user's hands: what `run` does at its end and `report` does alone.
#include "tools/reporting.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <tuple>

#include "report/capture_reader.h"
#include "report/diagnose/diagnose.h"
#include "report/render/json.h"
#include "report/render/text.h"
#include "report/runtime_names.h"
#include "report/symbols.h"

namespace vramtrack {
namespace {

ReportedProcess judge(Heap heap, const ReportOptions& options, const std::vector<Suppression>& suppressions) {
  ReportedProcess process;
  process.heap = std::move(heap);
  resolve(process.heap, {options.debug_path});
  name_runtime_calls(process.heap);
  process.findings = diagnose(process.heap);
  process.suppressed = suppress(suppressions, process.heap, process.findings);
  return process;
}

bool has_finding(const ReportedProcess& process, const ReportOptions& options) {
  return std::ranges::any_of(process.findings, [&](const Finding& finding) {
    return finding.severity >= options.fail_on && is_selected(options.selection, process.heap, finding);
  });
}

// A terminal's own width within reason; elsewhere what COLUMNS says, or a width that does not depend on the machine.
size_t page_width(std::FILE* stream) {
  constexpr size_t kNarrowest = 50, kWidest = 120, kUsual = 100;
  winsize window = {};
  const bool is_terminal = ioctl(fileno(stream), TIOCGWINSZ, &window) == 0 && window.ws_col != 0;
  if (is_terminal) return std::clamp<size_t>(window.ws_col, kNarrowest, kWidest);
  const char* columns = std::getenv("COLUMNS");
  const long wanted = columns != nullptr ? std::strtol(columns, nullptr, 10) : 0;
  return wanted > 0 ? std::clamp<size_t>(static_cast<size_t>(wanted), kNarrowest, kWidest) : kUsual;
}

bool wants_color(Color color, std::FILE* stream) {
  if (color != Color::kAuto) return color == Color::kAlways;
  const char* term = std::getenv("TERM");
  return isatty(fileno(stream)) != 0 && std::getenv("NO_COLOR") == nullptr && term != nullptr && std::strcmp(term, "dumb") != 0;
}

std::string text_report(const Report& report, const ReportOptions& options, std::FILE* stream) {
  TextOptions text;
  text.width = page_width(stream);
  text.color = wants_color(options.color, stream);
  text.top = options.top.value_or(text.top);
  text.moment = options.moment;
  text.selection = options.selection;
  std::error_code ignored;
  text.base_directory = std::filesystem::current_path(ignored).string();
  text.source_root = options.source_root;
  return render_text(report.processes, text);
}

std::string json_report(const Report& report, const ReportOptions& options) {
  JsonOptions json;
  json.top = options.top.value_or(json.top);
  json.moment = options.moment;
  json.selection = options.selection;
  return render_json(report.processes, json);
}

// "" or the error.
std::string write_all(std::FILE* stream, const std::string& text) {
  bool ok = std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0;
  return ok ? "" : std::strerror(errno);
}

}  // namespace

Report make_report(const std::vector<std::string>& captures, const ReportOptions& options,
                   const std::vector<Suppression>& suppressions, std::vector<std::string>& errors) {
  Report report;
  for (const std::string& capture : captures) {
    try {
      auto read = read_capture(capture);
      if (auto* error = std::get_if<ReadError>(&read)) {
        errors.push_back(error->message);
      } else {
        report.processes.push_back(judge(std::move(std::get<Heap>(read)), options, suppressions));
      }
    } catch (const std::bad_alloc&) {  // a sparse file may claim any size
      errors.push_back(capture + ": cannot be read: it needs more memory than this machine gives");
    } catch (const std::exception& defect) {  // ours; the user's exit code and the other captures must not suffer from it
      errors.push_back(fmt::format("{}: not reported, by a defect of vramtrack ({}); please send it with the capture", capture, defect.what()));
    }
  }
  std::ranges::stable_sort(report.processes, {}, [](const ReportedProcess& process) {
    return std::tuple(process.heap.process.rank, process.heap.process.start_time);
  });
  report.failed = std::ranges::any_of(report.processes, [&](const auto& process) { return has_finding(process, options); });
  return report;
}

std::string write_report(const Report& report, const ReportOptions& options, std::FILE* stream) {
  if (options.format == Format::kNone) return {};
  std::FILE* file = options.output.empty() ? stream : std::fopen(options.output.c_str(), "we");
  if (file == nullptr) return fmt::format("{}: cannot be written: {}", options.output, std::strerror(errno));
  std::string text = options.format == Format::kJson ? json_report(report, options) : text_report(report, options, file);
  std::string error = write_all(file, text);
  if (file != stream && std::fclose(file) != 0 && error.empty()) error = std::strerror(errno);
  if (error.empty()) return {};
  return fmt::format("{}: cannot be written: {}", options.output.empty() ? "the report" : options.output, error);
}

}  // namespace vramtrack

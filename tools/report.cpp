// vramtrack report: what captures say, after the fact.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tools/commands.h"
#include "tools/reporting.h"

namespace vramtrack {
namespace {

namespace fs = std::filesystem;

// A directory stands for the captures in it.
std::vector<std::string> expand(const std::vector<std::string>& arguments, std::vector<std::string>& errors) {
  std::vector<std::string> captures;
  for (const std::string& argument : arguments) {
    std::error_code error;
    if (!fs::is_directory(argument, error)) {
      captures.push_back(argument);
      continue;
    }
    std::vector<std::string> found;
    for (fs::directory_iterator at(argument, error), end; !error && at != end; at.increment(error)) {
      if (at->path().extension() == ".vtrk") found.push_back(at->path().string());
    }
    if (error) errors.push_back(fmt::format("{}: cannot be read: {}", argument, error.message()));
    if (!error && found.empty()) errors.push_back(fmt::format("{}: no captures: there is no *.vtrk in this directory", argument));
    std::ranges::sort(found);
    captures.insert(captures.end(), found.begin(), found.end());
  }
  return captures;
}

}  // namespace

int report_command(const ReportCommandOptions& options) {
  std::vector<Suppression> suppressions;
  if (!load_suppressions(options.report, suppressions)) return kBadUsage;

  std::vector<std::string> errors;
  std::vector<std::string> captures = expand(options.captures, errors);
  Report report = make_report(captures, options.report, suppressions, errors);
  if (!report.processes.empty()) {
    if (std::string error = write_report(report, options.report, stdout); !error.empty()) errors.push_back(error);
  }
  for (const std::string& error : errors) say(error);

  if (!errors.empty()) return kBadUsage;
  return report.failed ? options.report.error_exitcode.value_or(0) : 0;
}

}  // namespace vramtrack

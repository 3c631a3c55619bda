// The options of the command line, as the subcommands see them.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "report/render/report.h"

namespace vramtrack {

inline constexpr const char* kVersion = "0.1.0";
inline constexpr int kBadUsage = 2;

enum class Format : uint8_t { kText, kJson, kNone };
enum class Color : uint8_t { kAuto, kAlways, kNever };

// What both `run` and `report` take: how findings are judged and shown.
struct ReportOptions {
  Format format = Format::kText;
  std::string output;  // a file, "" = the stream of the subcommand
  std::string suppressions;
  std::optional<int> error_exitcode;
  Severity fail_on = Severity::kLeak;
  std::optional<size_t> top;  // sites listed; the formats have their own default
  Moment moment = Moment::kPeak;
  Selection selection;
  Color color = Color::kAuto;
  std::string source_root, debug_path;
};

struct RunOptions {
  std::string output;  // as typed: a directory or a pattern
  bool cpu = false, no_children = false, quiet = false, verbose = false;
  std::string stacks = "both";
  std::optional<unsigned> native_depth;
  std::vector<std::string> command;
  ReportOptions report;
};

struct ReportCommandOptions {
  std::vector<std::string> captures;
  ReportOptions report;
};

struct DoctorOptions {
  std::string program;  // "" = none: the machine alone
};

void add_run_options(CLI::App&, RunOptions&);
void add_report_options(CLI::App&, ReportCommandOptions&);
void add_doctor_options(CLI::App&, DoctorOptions&);

// Where PROGRAM stands among the arguments of `run`: what follows is PROGRAM's, also what looks like an option of ours.
size_t program_position(const CLI::App& run, const std::vector<std::string>& arguments);

// "vramtrack: " and `message` as one line on stderr.
void say(const std::string& message);

}  // namespace vramtrack

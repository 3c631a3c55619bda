// vramtrack run: runs a program with the library preloaded, and reports on it when it has ended.
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "tools/child.h"
#include "tools/commands.h"
#include "tools/preload.h"
#include "tools/reporting.h"
#include "tools/run_output.h"
#include "tools/usage_sampler.h"

namespace vramtrack {
namespace {

constexpr int kStagedCopySeconds = 30;

// What the preloaded library reads; interpose/settings.h says what each means.
void set_library_environment(const RunOptions& options, const RunOutput& output, const std::string& library) {
  auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
  auto set_or_clear = [&set](const char* name, bool wanted, const std::string& value) {
    wanted ? set(name, value) : static_cast<void>(unsetenv(name));
  };
  const char* others = std::getenv("LD_PRELOAD");
  set("LD_PRELOAD", others && *others ? library + ":" + others : library);
  set("VRAMTRACK_OUTPUT", output.pattern());
  set("VRAMTRACK_MANIFEST", output.manifest());
  set("VRAMTRACK_RUN_ID", fmt::format("{:x}", output.run_id()));
  set("VRAMTRACK_STACKS", options.stacks);
  set_or_clear("VRAMTRACK_CPU", options.cpu, "1");
  set_or_clear("VRAMTRACK_NATIVE_DEPTH", options.native_depth.has_value(), std::to_string(options.native_depth.value_or(0)));
  set_or_clear("VRAMTRACK_ONLY_PID", options.no_children, std::to_string(getpid()));
}

// "" or what makes recording impossible, before the program is started.
std::string check_library(const std::string& library) {
  if (library.empty()) return "libvramtrack.so is missing: it is looked for in ../lib beside this command";
  if (library.find_first_of(": ") != std::string::npos) {
    return library + ": cannot be preloaded: LD_PRELOAD allows no space and no colon in a path";
  }
  return {};
}

// Says why a program will not be traced, and whether its environment may name our library all the same: a statically linked
// launcher's children can be traced, while a loader of another architecture would complain.
bool may_preload(const std::string& program) {
  if (program.empty()) return true;
  Preloadable can = preloadable(program);
  if (!can.why_not.empty()) say(fmt::format("{}: cannot be traced: {}; it runs untraced", program, can.why_not));
  return !can.other_architecture;
}

int not_executed(const std::string& program, int error) {
  say(fmt::format("{}: cannot be executed: {}", program, error == ENOENT ? "not found" : std::strerror(error)));
  return error == ENOENT ? 127 : 126;
}

void say_nothing_recorded(const RunOptions& options) {
  std::string cpu = options.cpu ? "" : ", or PyTorch on the CPU without --cpu";
  say(fmt::format("no CUDA or PyTorch allocations were seen (no use of a GPU, a statically linked program{})", cpu));
}

void say_where(const std::vector<std::string>& captures) {
  std::string more = captures.size() == 1 ? "" : fmt::format(" and {} more", captures.size() - 1);
  say(fmt::format("recorded in {}{}", captures[0], more));
}

// True if a finding was made that --error-exitcode is for.
bool report_run(const RunOptions& options, const std::vector<std::string>& captures,
                const std::vector<Suppression>& suppressions) {
  std::vector<std::string> errors;
  Report report = make_report(captures, options.report, suppressions, errors);
  ReportOptions how = options.report;
  if (options.quiet && how.output.empty()) how.format = Format::kNone;
  if (!report.processes.empty()) {
    if (std::string error = write_report(report, how, stderr); !error.empty()) errors.push_back(error);
  }
  for (const std::string& error : errors) say(error);
  const bool json_on_stderr = how.format == Format::kJson && how.output.empty();  // nothing else belongs there
  if (!options.quiet && !json_on_stderr) say_where(captures);
  return report.failed;
}

}  // namespace

bool load_suppressions(const ReportOptions& options, std::vector<Suppression>& suppressions) {
  if (options.suppressions.empty()) return true;
  auto read = read_suppressions(options.suppressions);
  if (auto* error = std::get_if<std::string>(&read)) {
    say(*error);
    return false;
  }
  suppressions = std::get<std::vector<Suppression>>(std::move(read));
  return true;
}

int run_command(const RunOptions& options) {
  std::vector<Suppression> suppressions;
  if (!load_suppressions(options.report, suppressions)) return kBadUsage;
  const std::string library = find_library();
  RunOutput output(options.output);
  if (std::string error = check_library(library); !error.empty()) {
    say(error);
    return kBadUsage;
  }
  // No room for captures is no reason to keep the user's program from running.
  if (!output.error().empty()) say(output.error() + "; the program runs unrecorded");
  if (options.verbose) say(fmt::format("preloading {}, captures go to {}", library, output.pattern()));
  const bool preload = may_preload(find_program(options.command[0])) && output.error().empty();
  output.copy_at_intervals(kStagedCopySeconds);

  ChildResult child;
  {
    const UsageSampler sampler(output.manifest());
    child = run_child(options.command, [&] {
      if (preload) set_library_environment(options, output, library);
    });
  }
  if (child.exec_errno != 0) return not_executed(options.command[0], child.exec_errno);

  const std::vector<std::string> captures = output.collect(child.pid, child.end);
  for (const std::string& message : output.messages()) say(message);
  bool failed = false;
  if (!captures.empty()) {
    failed = report_run(options, captures, suppressions);
  } else if (!options.quiet && preload && output.messages().empty()) {
    say_nothing_recorded(options);
  }
  output.clean_up();
  if (failed && options.report.error_exitcode) return *options.report.error_exitcode;
  end_like(child.end);
}

}  // namespace vramtrack

// vramtrack: finds what leaks GPU memory. The list of its subcommands.
#include <fmt/format.h>

#include <algorithm>

#include "tools/commands.h"

namespace {

using namespace vramtrack;

// CLI11 writes the options' names into the usage line, which this command's own order needs to be said instead.
class UsageLine : public CLI::Formatter {
 public:
  explicit UsageLine(std::string usage) : usage_(std::move(usage)) { column_width(34); }
  std::string make_usage(const CLI::App*, std::string) const override { return usage_ + "\n"; }

 private:
  std::string usage_;
};

void set_usage(CLI::App& app, const std::string& usage) { app.formatter(std::make_shared<UsageLine>("Usage: vramtrack " + usage)); }

// Takes PROGRAM [ARGS...] off the arguments.
std::vector<std::string> split_command(const CLI::App& run_app, std::vector<std::string>& arguments) {
  const std::vector<std::string> after_run(arguments.begin() + 1, arguments.end());
  const size_t position = std::min(program_position(run_app, after_run), after_run.size());
  arguments.resize(1 + position);
  if (arguments.back() == "--") arguments.pop_back();
  return {after_run.begin() + static_cast<ptrdiff_t>(position), after_run.end()};
}

// One line that says what is wrong, and where help is.
int bad_usage(const CLI::App& app, const std::string& what) {
  const auto chosen = app.get_subcommands();
  std::string help = chosen.empty() ? "vramtrack --help" : fmt::format("vramtrack {} --help", chosen[0]->get_name());
  std::string line = what.substr(0, what.find('\n'));
  say(fmt::format("{} (see `{}`)", line, help));
  return kBadUsage;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Finds what leaks or wastes GPU memory, in unmodified programs.\n\n"
               "  vramtrack run python train.py     run it; the report follows when it ends\n"
               "  vramtrack report python.4242.vtrk read the capture again\n"
               "  vramtrack doctor                  can programs be traced here?",
               "vramtrack");
  RunOptions run;
  ReportCommandOptions report;
  DoctorOptions doctor;
  app.set_version_flag("--version", std::string("vramtrack ") + kVersion);
  app.require_subcommand(1);
  CLI::App* run_app = app.add_subcommand("run", "run a program, record its GPU memory, report when it ends");
  CLI::App* report_app = app.add_subcommand("report", "report what captures hold");
  CLI::App* doctor_app = app.add_subcommand("doctor", "say what can be traced on this machine, and what not");
  set_usage(app, "run|report|doctor [OPTIONS] ...");
  set_usage(*run_app, "run [OPTIONS] [--] PROGRAM [ARGS...]");
  set_usage(*report_app, "report [OPTIONS] CAPTURE...");
  add_run_options(*run_app, run);
  set_usage(*doctor_app, "doctor [PROGRAM]");
  add_report_options(*report_app, report);
  add_doctor_options(*doctor_app, doctor);

  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) arguments = {"--help"};
  const std::string& first = arguments[0];
  const bool is_command = std::ranges::any_of(app.get_subcommands({}), [&](const CLI::App* one) { return one->get_name() == first; });
  if (!first.starts_with('-') && !is_command) {
    return bad_usage(app, fmt::format("{} is no command; `vramtrack run {}` runs a program", first, first));
  }
  if (first == "run") run.command = split_command(*run_app, arguments);
  try {
    std::ranges::reverse(arguments);  // CLI11 takes them from the back
    app.parse(arguments);
  } catch (const CLI::Success& help_or_version) {
    return argc == 1 ? app.exit(help_or_version), kBadUsage : app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return bad_usage(app, error.what());
  }
  if (report_app->parsed()) return report_command(report);
  if (doctor_app->parsed()) return doctor_command(doctor);
  if (run.command.empty()) return bad_usage(app, "which program shall run?");
  return run_command(run);
}

// From captures to a report in the user's hands: what `run` does at its end and `report` does alone.
#pragma once

#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "report/diagnose/suppressions.h"
#include "tools/options.h"

namespace vramtrack {

struct Report {
  std::vector<ReportedProcess> processes;  // by rank, then by start
  bool failed = false;                     // a finding of the severity that --fail-on names was made
};

// The captures that could be read, judged; `errors` gets one line for each of the others.
Report make_report(const std::vector<std::string>& captures, const ReportOptions&, const std::vector<Suppression>&,
                   std::vector<std::string>& errors);

// Writes it in the wanted format to options.output, else to `stream`. "" or what went wrong.
std::string write_report(const Report&, const ReportOptions&, std::FILE* stream);

}  // namespace vramtrack

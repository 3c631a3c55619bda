// The subcommands; each answers the exit code of vramtrack.
#pragma once

#include "report/diagnose/suppressions.h"
#include "tools/options.h"

namespace vramtrack {

int run_command(const RunOptions&);
int report_command(const ReportCommandOptions&);
int doctor_command(const DoctorOptions&);

// Reads the list that --suppressions names; false, after saying so, if it cannot be.
bool load_suppressions(const ReportOptions&, std::vector<Suppression>&);

}  // namespace vramtrack

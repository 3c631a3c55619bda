// The report for programs: JSON of schema vramtrack.report/1. Fields are only ever added.
#pragma once

#include <span>
#include <string>

#include "report/render/report.h"

namespace vramtrack {

struct JsonOptions {
  size_t top = 200;  // sites listed for each process
  Moment moment = Moment::kPeak;
  Selection selection;
};

// Valid UTF-8 whatever the names hold; ends with a line end.
std::string render_json(std::span<const ReportedProcess>, const JsonOptions&);

}  // namespace vramtrack

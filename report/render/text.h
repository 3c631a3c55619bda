// The report for a person: findings first, worst first; then where the memory is; then what stood at the peak.
#pragma once

#include <span>
#include <string>

#include "report/render/report.h"

namespace vramtrack {

struct TextOptions {
  size_t width = 100;  // columns
  bool color = false;
  size_t top = 10;                  // rows of the sites' table
  Moment moment = Moment::kPeak;    // that the table shows
  Selection selection;
  std::string base_directory;       // files below it are shown relative to it
  std::string source_root;          // where sources are that are not at their recorded place
};

std::string render_text(std::span<const ReportedProcess>, const TextOptions&);

}  // namespace vramtrack

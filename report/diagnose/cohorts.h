// How often was the same set of parameters allocated: the bursts in which whole models are built.
#pragma once

#include <optional>

#include "report/diagnose/examination.h"

namespace vramtrack {

// Sites of one space in which one model's parameters and buffers are made.
struct Cohort {
  std::vector<SiteIndex> sites;
  size_t builds = 0;        // models built; 0 = could not be counted
  double bytes_each = 0;    // of one model
  Stack built_at;           // the callers that all of its parameters have in common
};

// Models of which the old ones live on while new ones are built.
std::optional<Cohort> growing_cohort(const Examination&, int space);

// A model of which the old one dies only after the new one was built.
std::optional<Cohort> overlapping_cohort(const Examination&, int space);

}  // namespace vramtrack

// What a test of the diagnosis asks of the findings of a heap.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "report/diagnose/diagnose.h"

namespace vramtrack {

// "id/severity" of all findings, worst first, parted by blanks; a failed comparison reads like a report.
inline std::string said(const Heap& heap, std::string_view except_for = "") {
  std::string text;
  for (const Finding& finding : diagnose(heap)) {
    if (finding.id == except_for) continue;
    text += (text.empty() ? "" : " ") + finding.id + "/" + std::string(to_string(finding.severity));
  }
  return text;
}

inline bool says_leak(const Heap& heap) {
  return std::ranges::any_of(diagnose(heap), [](const Finding& finding) { return finding.severity == Severity::kLeak; });
}

// The finding with this id; an empty one if there is none.
inline Finding finding(const Heap& heap, const std::string& id) {
  for (Finding& each : diagnose(heap)) {
    if (each.id == id) return each;
  }
  return {};
}

}  // namespace vramtrack

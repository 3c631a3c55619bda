// What the renderers are given: processes with their findings, and what of them the user asked to see.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/diagnose/finding.h"
#include "report/heap.h"

namespace vramtrack {

struct ReportedProcess {
  Heap heap;
  std::vector<Finding> findings;  // worst first
  size_t suppressed = 0;          // findings that the user's list took out
};

// Which findings and sites are shown. Everything by default.
struct Selection {
  uint64_t min_bytes = 0;
  std::string device;  // "" = all, else as device_name() says it
  std::optional<Kind> kind;
  std::optional<Layer> layer;
  std::optional<size_t> space;  // index into Heap::spaces
};

enum class Moment : uint8_t { kEnd, kPeak };

bool is_selected(const Selection&, const Heap&, const Finding&);

// The sites of the selection that hold bytes at the moment, most bytes first, `top` at most.
std::vector<const Site*> top_sites(const Selection&, const Heap&, Moment, size_t top);

// Frees while the program worked: what its teardown freed was held until then.
uint64_t frees_while_working(const Site&);

uint64_t bytes_at(const Site&, Moment);
uint64_t blocks_at(const Site&, Moment);

}  // namespace vramtrack

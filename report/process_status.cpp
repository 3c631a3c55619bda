// Is the process of a capture still running on this machine, and since when is it recorded?
#include "report/process_status.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

namespace vramtrack {
namespace {

bool is_this_host(std::string_view host) {
  char name[256] = {};
  return host.empty() || gethostname(name, sizeof(name) - 1) != 0 || host == name;
}

struct Status {
  bool runs = false;
  uint64_t start_ticks = 0, resident_pages = 0;
};

// From the fields 3, 22 and 24 of /proc/PID/stat; see proc(5).
Status status_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  std::getline(file, stat, '\0');
  size_t name_end = stat.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return {};
  std::istringstream fields(stat.substr(name_end + 1));
  Status status;
  std::string state, field;
  fields >> state;
  for (int i = 4; i < 22; ++i) fields >> field;
  fields >> status.start_ticks >> field >> status.resident_pages;
  status.runs = fields && state != "Z" && state != "X";
  return status;
}

}  // namespace

bool process_is_running(int pid, uint64_t start_ticks, std::string_view host) {
  if (!is_this_host(host)) return false;
  const Status status = status_of(pid);
  return status.runs && status.start_ticks == start_ticks;
}

uint64_t resident_bytes(int pid, uint64_t start_ticks) {
  const Status status = status_of(pid);
  return status.runs && status.start_ticks == start_ticks ? status.resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

uint32_t recording_age_ms(uint64_t start_monotonic_ns) {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const uint64_t ns = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  const uint64_t age_ms = (ns - std::min(ns, start_monotonic_ns)) / 1'000'000;
  return static_cast<uint32_t>(std::min<uint64_t>(age_ms, 4'000'000'000));
}

}  // namespace vramtrack

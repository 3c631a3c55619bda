// A simulated NVML: what each process uses of each device, as the simulated drivers publish it. Only what is needed to ask that, by NVML's
// documented names.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "usage.h"

namespace {

constexpr int kSuccess = 0, kInvalidArgument = 2, kInsufficientSize = 7;

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

unsigned device_count() {
  const char* count = std::getenv("VRAMTRACK_SIM_DEVICES");
  return count != nullptr ? static_cast<unsigned>(std::atoi(count)) : 1;
}

std::vector<ProcessInfo> processes_on(size_t device) {
  std::vector<ProcessInfo> found;
  const char* path = std::getenv("VRAMTRACK_SIM_USAGE");
  DIR* directory = path != nullptr ? opendir(path) : nullptr;
  if (directory == nullptr) return found;
  while (const dirent* entry = readdir(directory)) {
    const unsigned pid = static_cast<unsigned>(std::atoi(entry->d_name));
    if (pid == 0 || kill(static_cast<pid_t>(pid), 0) != 0) continue;
    sim::PublishedUsage usage{};
    const int file = open((std::string(path) + "/" + entry->d_name).c_str(), O_RDONLY | O_CLOEXEC);
    const bool whole = file >= 0 && read(file, &usage, sizeof usage) == static_cast<ssize_t>(sizeof usage);
    if (file >= 0) close(file);
    if (whole && usage.used_bytes[device] != 0) found.push_back({pid, usage.used_bytes[device], 0, 0});
  }
  closedir(directory);
  return found;
}

size_t ordinal(void* device) { return reinterpret_cast<size_t>(device) - 1; }

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) int

API nvmlInit_v2() { return kSuccess; }
API nvmlShutdown() { return kSuccess; }

API nvmlDeviceGetCount_v2(unsigned* count) {
  *count = device_count();
  return kSuccess;
}

API nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= device_count()) return kInvalidArgument;
  *device = reinterpret_cast<void*>(size_t{index} + 1);
  return kSuccess;
}

API nvmlDeviceGetUUID(void* device, char* text, unsigned length) {
  std::string uuid = "GPU-";
  for (int i = 0; i < 16; i++) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", i == 15 ? static_cast<unsigned>(ordinal(device)) : static_cast<unsigned char>(sim::kUuid[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) uuid += "-";
    uuid += digits;
  }
  if (uuid.size() >= length) return kInsufficientSize;
  std::strcpy(text, uuid.c_str());
  return kSuccess;
}

API nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, ProcessInfo* to) {
  const std::vector<ProcessInfo> found = processes_on(ordinal(device));
  const unsigned room = *count;
  *count = static_cast<unsigned>(found.size());
  if (found.size() > room) return kInsufficientSize;
  std::copy(found.begin(), found.end(), to);
  return kSuccess;
}

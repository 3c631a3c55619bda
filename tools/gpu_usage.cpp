// How much device memory does each process use? See gpu_usage.h.
#include "tools/gpu_usage.h"

#include <dlfcn.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace vramtrack {
namespace {

// From NVML's reference; its header is not needed for so little.
constexpr int kSuccess = 0, kInsufficientSize = 7;
constexpr unsigned long long kNotAvailable = ~0ull;
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
using Init = int (*)();
using DeviceCount = int (*)(unsigned*);
using DeviceByIndex = int (*)(unsigned, void**);
using DeviceUuid = int (*)(void*, char*, unsigned);
using RunningProcesses = int (*)(void*, unsigned*, ProcessInfo*);

template <typename Function>
Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

// "GPU-01234567-89ab-cdef-0123-456789abcdef"
std::optional<std::array<uint8_t, 16>> uuid_bytes(const std::string& text) {
  std::array<uint8_t, 16> bytes = {};
  size_t digits = 0;
  const size_t begin = text.find('-');
  if (begin == std::string::npos) return std::nullopt;
  for (const char c : text.substr(begin)) {
    if (c == '-') continue;
    const std::string digit(1, c);
    char* end = nullptr;
    const unsigned long value = std::strtoul(digit.c_str(), &end, 16);
    if (*end != '\0' || digits == 32) return std::nullopt;
    bytes[digits / 2] = static_cast<uint8_t>(bytes[digits / 2] << 4 | value);
    ++digits;
  }
  if (digits != 32) return std::nullopt;
  return bytes;
}

std::vector<ProcessInfo> processes_on(void* library, void* device) {
  const auto running = find<RunningProcesses>(library, "nvmlDeviceGetComputeRunningProcesses_v3");
  if (running == nullptr) return {};
  std::vector<ProcessInfo> processes(64);
  for (int attempt = 0; attempt < 3; ++attempt) {
    auto count = static_cast<unsigned>(processes.size());
    const int result = running(device, &count, processes.data());
    if (result == kSuccess) {
      processes.resize(count);
      return processes;
    }
    if (result != kInsufficientSize) break;
    processes.resize(count + 16);
  }
  return {};
}

}  // namespace

GpuUsageMeter::GpuUsageMeter() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) return;
  const auto init = find<Init>(library_, "nvmlInit_v2");
  const auto device_count = find<DeviceCount>(library_, "nvmlDeviceGetCount_v2");
  const auto device_by_index = find<DeviceByIndex>(library_, "nvmlDeviceGetHandleByIndex_v2");
  const auto device_uuid = find<DeviceUuid>(library_, "nvmlDeviceGetUUID");
  unsigned count = 0;
  if (!init || !device_count || !device_by_index || !device_uuid || init() != kSuccess || device_count(&count) != kSuccess) return;
  for (unsigned i = 0; i < count; ++i) {
    void* handle = nullptr;
    char text[96] = {};
    if (device_by_index(i, &handle) != kSuccess || device_uuid(handle, text, sizeof text) != kSuccess) continue;
    if (const auto uuid = uuid_bytes(text)) devices_.push_back({handle, *uuid});
  }
}

GpuUsageMeter::~GpuUsageMeter() {
  if (library_ == nullptr) return;
  if (const auto shutdown = find<Init>(library_, "nvmlShutdown")) shutdown();
  dlclose(library_);
}

std::vector<GpuUsage> GpuUsageMeter::read() const {
  std::vector<GpuUsage> all;
  for (const Device& device : devices_) {
    for (const ProcessInfo& process : processes_on(library_, device.handle)) {
      if (process.used_bytes != kNotAvailable) all.push_back({device.uuid, static_cast<pid_t>(process.pid), process.used_bytes});
    }
  }
  return all;
}

}  // namespace vramtrack

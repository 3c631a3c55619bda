// How much device memory does each process use, as nvidia-smi shows it? Asked of NVML (libnvidia-ml.so.1, documented by NVIDIA), which is
// part of the driver; where it is not there, nothing is measured.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <vector>

namespace vramtrack {

struct GpuUsage {
  std::array<uint8_t, 16> uuid;  // of the device, as cuDeviceGetUuid tells it
  pid_t pid;                     // as this process sees it; in a container the driver may know it by another
  uint64_t bytes;
};

class GpuUsageMeter {
 public:
  GpuUsageMeter();  // takes a millisecond or two
  ~GpuUsageMeter();
  GpuUsageMeter(const GpuUsageMeter&) = delete;
  GpuUsageMeter& operator=(const GpuUsageMeter&) = delete;

  explicit operator bool() const { return !devices_.empty(); }  // false: there is no NVML, or no device
  std::vector<GpuUsage> read() const;  // about 40 us for each device

 private:
  struct Device {
    void* handle;
    std::array<uint8_t, 16> uuid;
  };
  void* library_ = nullptr;
  std::vector<Device> devices_;
};

}  // namespace vramtrack

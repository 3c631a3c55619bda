// While a run lasts: measures what its processes use of their devices and of the host. See usage_sampler.h.
#include "tools/usage_sampler.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <vector>

#include "report/usage_writer.h"
#include "tools/gpu_usage.h"

namespace vramtrack {
namespace {

constexpr std::chrono::milliseconds kInterval(200);

// "/path/python3.4242.vtrk"; lines with ! are messages.
std::vector<std::string> captures_in(const std::string& manifest) {
  std::vector<std::string> captures;
  std::ifstream file(manifest);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '!') captures.push_back(line);
  }
  return captures;
}

}  // namespace

UsageSampler::UsageSampler(std::string manifest) : manifest_(std::move(manifest)) {
  // Signals are for the main thread, which forwards them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  sampler_ = std::thread([this] { sample_until_finished(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

UsageSampler::~UsageSampler() {
  {
    std::lock_guard lock(mutex_);
    finished_ = true;
  }
  wake_.notify_all();
  sampler_.join();
}

void UsageSampler::sample_until_finished() {
  std::unique_ptr<GpuUsageMeter> meter;  // made once a process has used a device
  UsageWriter writer;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kInterval, [this] { return finished_; })) {
    const std::vector<std::string> captures = captures_in(manifest_);
    if (captures.empty()) continue;
    for (const std::string& capture : captures) writer.add_resident(capture);
    if (!meter) meter = std::make_unique<GpuUsageMeter>();
    for (const GpuUsage& usage : meter->read()) {
      // The newest of a process first: what it was before it executed another program stays as it is.
      std::ranges::find_if(captures.rbegin(), captures.rend(), [&](const std::string& capture) {
        return writer.add(capture, usage.pid, usage.uuid, usage.bytes);
      });
    }
  }
}

}  // namespace vramtrack

// While a run lasts: measures what its processes use of their devices and of the host, and writes it into their captures.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace vramtrack {

class UsageSampler {
 public:
  // `manifest` is the file that names the captures of the run. Starts a thread. To be made before the run's process is forked: the thread touches nothing that a forked child needs (it sleeps first, and
  // later reads files), and malloc's own locks are safe across a fork.
  explicit UsageSampler(std::string manifest);
  ~UsageSampler();
  UsageSampler(const UsageSampler&) = delete;
  UsageSampler& operator=(const UsageSampler&) = delete;

 private:
  void sample_until_finished();

  std::string manifest_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool finished_ = false;
  std::thread sampler_;
};

}  // namespace vramtrack

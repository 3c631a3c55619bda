// How much does this process use of each device, for the simulated NVML to see?
#include "usage.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "handles.h"
#include "machine.h"

namespace sim {
namespace {

PublishedUsage* open_page() {
  const std::string path = std::string(settings().usage_directory) + "/" + std::to_string(getpid());
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(PublishedUsage)) != 0) return nullptr;
  void* page = mmap(nullptr, sizeof(PublishedUsage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return page == MAP_FAILED ? nullptr : static_cast<PublishedUsage*>(page);
}

}  // namespace

void publish_usage() {
  static PublishedUsage* const page = open_page();  // under the machine's lock
  if (page == nullptr) return;
  Machine& m = machine();
  for (size_t i = 0; i < m.devices.size() && i < PublishedUsage::kMaxDevices; i++) {
    const Device& device = m.devices[i];
    const bool is_used = device.primary != nullptr && device.primary->live;
    page->used_bytes[i] = is_used ? device.used_bytes + settings().context_bytes + m.streams.size() * settings().stream_bytes : 0;
  }
}

}  // namespace sim

// What is physical memory of virtual memory management, and who refers to it? Used under the machine's lock.
#pragma once

#include "machine.h"

namespace sim {

constexpr size_t kGranularity = size_t{2} << 20;

struct Physical;

// Memory of one device at a place in a multicast object.
struct Binding {
  int device;
  size_t offset;
  size_t size_bytes;
  std::shared_ptr<Physical> physical;
};

struct Multicast {
  unsigned device_count = 0;  // to be added
  std::vector<int> devices;
  std::vector<Binding> bindings;
};

// Lives until no handle, mapping, binding or array refers to it; then its bytes go back to the device.
struct Physical {
  CUmemAllocationProp properties{};
  size_t size_bytes = 0;
  size_t counted_bytes = 0;  // of size_bytes, what the device has less: 0 for another process' memory, the host's, and multicast objects
  int file = -1;
  std::unique_ptr<Multicast> multicast;  // null: memory

  Physical() = default;
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  ~Physical();
};

inline bool is_multiple(Address value) { return value % kGranularity == 0; }
inline bool on_device(const CUmemAllocationProp& properties) { return properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE; }

// With a file of that size; null if the system has none.
std::shared_ptr<Physical> make_physical(const CUmemAllocationProp& properties, size_t size_bytes);
CUmemGenericAllocationHandle add_handle(std::shared_ptr<Physical> physical);

// Null if there is none.
std::shared_ptr<Physical> find_physical(CUmemGenericAllocationHandle handle);
// The one whose mapping has the whole range.
std::shared_ptr<Physical> find_mapped(Address address, size_t size_bytes);

}  // namespace sim

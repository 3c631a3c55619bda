// What does virtual memory management do: address ranges, physical memory, and mappings of one into the other?
//
// Physical memory is a memory file, so that it can be mapped several times and shared with other processes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory.h"
#include "virtual.h"

namespace sim {
namespace {

struct Handle {
  std::shared_ptr<Physical> physical;
  int references = 1;
};

struct Mapping {
  size_t size_bytes;
  std::shared_ptr<Physical> physical;
};

struct VirtualMemory {
  std::map<Address, size_t> ranges;
  std::map<Address, Mapping> mappings;
  std::map<CUmemGenericAllocationHandle, Handle> handles;
  CUmemGenericAllocationHandle next_handle = 0x1000;
};

VirtualMemory& virtual_memory() {
  static VirtualMemory& instance = *new VirtualMemory;  // under the machine's lock
  return instance;
}

bool valid(const CUmemAllocationProp* properties) {
  return properties != nullptr && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         (!on_device(*properties) || valid_device(properties->location.id));
}

bool is_reserved(Address address, size_t size_bytes) {
  auto& ranges = virtual_memory().ranges;
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return false;
  auto range = std::prev(after);
  return address + size_bytes <= range->first + range->second;
}

// The mapping that `address` points into, end() if there is none.
std::map<Address, Mapping>::iterator find_mapping(Address address) {
  auto& mappings = virtual_memory().mappings;
  auto after = mappings.upper_bound(address);
  if (after == mappings.begin()) return mappings.end();
  auto mapping = std::prev(after);
  return address < mapping->first + mapping->second.size_bytes ? mapping : mappings.end();
}

// The mappings that fill the range without a gap, empty if there are none such.
std::vector<Address> mappings_of(Address address, size_t size_bytes) {
  std::vector<Address> found;
  Address at = address;
  while (at < address + size_bytes) {
    auto mapping = virtual_memory().mappings.find(at);
    if (mapping == virtual_memory().mappings.end()) return {};
    found.push_back(at);
    at += mapping->second.size_bytes;
  }
  return at == address + size_bytes ? found : std::vector<Address>{};
}

bool reserve_addresses(Address address, size_t size_bytes) {
  void* at = reinterpret_cast<void*>(address);
  return mmap(at, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == at;
}

// A multicast object can be mapped once all its devices are there.
bool incomplete(const Physical& physical) {
  return physical.multicast != nullptr && physical.multicast->devices.size() < physical.multicast->device_count;
}

}  // namespace

Physical::~Physical() {
  if (counted_bytes != 0) return_bytes(properties.location.id, counted_bytes);
  if (file >= 0) close(file);
}

std::shared_ptr<Physical> make_physical(const CUmemAllocationProp& properties, size_t size_bytes) {
  auto physical = std::make_shared<Physical>();
  physical->properties = properties;
  physical->size_bytes = size_bytes;
  physical->file = memfd_create("simulated device memory", MFD_CLOEXEC);
  if (physical->file < 0 || ftruncate(physical->file, static_cast<off_t>(size_bytes)) != 0) return nullptr;
  return physical;
}

CUmemGenericAllocationHandle add_handle(std::shared_ptr<Physical> physical) {
  VirtualMemory& v = virtual_memory();
  v.handles.emplace(v.next_handle, Handle{std::move(physical)});
  return v.next_handle++;
}

std::shared_ptr<Physical> find_physical(CUmemGenericAllocationHandle handle) {
  auto at = virtual_memory().handles.find(handle);
  return at == virtual_memory().handles.end() ? nullptr : at->second.physical;
}

std::shared_ptr<Physical> find_mapped(Address address, size_t size_bytes) {
  auto mapping = find_mapping(address);
  if (mapping == virtual_memory().mappings.end()) return nullptr;
  return size_bytes <= mapping->first + mapping->second.size_bytes - address ? mapping->second.physical : nullptr;
}

}  // namespace sim

using namespace sim;

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties, CUmemAllocationGranularity_flags) {
  return driver_call(__func__, [&] {
    if (granularity == nullptr || !valid(properties)) return CUDA_ERROR_INVALID_VALUE;
    *granularity = kGranularity;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t size_bytes, size_t alignment, CUdeviceptr, unsigned long long) {
  return driver_call(__func__, [&] {
    if (out == nullptr || size_bytes == 0 || !is_multiple(size_bytes)) return CUDA_ERROR_INVALID_VALUE;
    const size_t aligned = std::max(alignment, kGranularity);
    char* start = static_cast<char*>(mmap(nullptr, size_bytes + aligned, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (start == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    char* begin = reinterpret_cast<char*>(round_up(reinterpret_cast<size_t>(start), aligned));
    if (begin > start) munmap(start, static_cast<size_t>(begin - start));
    munmap(begin + size_bytes, static_cast<size_t>(start + aligned - begin));
    *out = reinterpret_cast<Address>(begin);
    virtual_memory().ranges.emplace(*out, size_bytes);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size_bytes) {
  return driver_call(__func__, [&] {
    VirtualMemory& v = virtual_memory();
    auto range = v.ranges.find(address);
    if (range == v.ranges.end() || range->second != size_bytes) return CUDA_ERROR_INVALID_VALUE;
    auto mapped = v.mappings.lower_bound(address);
    if (mapped != v.mappings.end() && mapped->first < address + size_bytes) return CUDA_ERROR_INVALID_VALUE;
    munmap(reinterpret_cast<void*>(address), size_bytes);
    v.ranges.erase(range);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t size_bytes, const CUmemAllocationProp* properties, unsigned long long flags) {
  return driver_call(__func__, [&] {
    if (out == nullptr || flags != 0 || size_bytes == 0 || !is_multiple(size_bytes) || !valid(properties)) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Physical> physical = make_physical(*properties, size_bytes);
    if (physical == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
    if (on_device(*properties)) {
      if (!reserve_bytes(properties->location.id, size_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
      physical->counted_bytes = size_bytes;
    }
    *out = add_handle(std::move(physical));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return driver_call(__func__, [&] {
    auto& handles = virtual_memory().handles;
    auto known = handles.find(handle);
    if (known == handles.end()) return CUDA_ERROR_INVALID_VALUE;
    if (--known->second.references == 0) handles.erase(known);
    return CUDA_SUCCESS;
  });
}

// Answers the handle it was made with, if that is still one, and counts.
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  return driver_call(__func__, [&] {
    auto& handles = virtual_memory().handles;
    const std::shared_ptr<Physical> physical = find_mapped(reinterpret_cast<Address>(address), 1);
    if (out == nullptr || physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto known = std::find_if(handles.begin(), handles.end(), [&](const auto& entry) { return entry.second.physical == physical; });
    if (known != handles.end()) ++known->second.references;
    *out = known != handles.end() ? known->first : add_handle(physical);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemMap(CUdeviceptr address, size_t size_bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return driver_call(__func__, [&] {
    const std::shared_ptr<Physical> physical = find_physical(handle);
    if (physical == nullptr || flags != 0 || offset != 0 || size_bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (!is_multiple(size_bytes) || !is_multiple(address) || size_bytes > physical->size_bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!is_reserved(address, size_bytes) || find_block(address) != machine().blocks.end()) return CUDA_ERROR_INVALID_VALUE;
    if (incomplete(*physical)) return CUDA_ERROR_ILLEGAL_STATE;  // the real one waits
    void* at = reinterpret_cast<void*>(address);
    if (mmap(at, size_bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->file, 0) != at) return CUDA_ERROR_OPERATING_SYSTEM;
    virtual_memory().mappings.emplace(address, Mapping{size_bytes, physical});
    add_block(address, {size_bytes, BlockKind::kMapped, on_device(physical->properties) ? physical->properties.location.id : 0, nullptr, nullptr, 0, 0});
    return CUDA_SUCCESS;
  });
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size_bytes) {
  return driver_call(__func__, [&] {
    const std::vector<Address> found = mappings_of(address, size_bytes);
    if (found.empty()) return CUDA_ERROR_INVALID_VALUE;
    for (Address at : found) {
      auto mapping = virtual_memory().mappings.find(at);
      reserve_addresses(at, mapping->second.size_bytes);
      machine().blocks.erase(at);
      virtual_memory().mappings.erase(mapping);
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size_bytes, const CUmemAccessDesc* descriptors, size_t count) {
  return driver_call(__func__, [&] {
    if (descriptors == nullptr || count == 0 || mappings_of(address, size_bytes).empty()) return CUDA_ERROR_INVALID_VALUE;
    int protection = PROT_NONE;
    for (size_t i = 0; i < count; i++) {
      if (descriptors[i].flags & CU_MEM_ACCESS_FLAGS_PROT_READ) protection |= PROT_READ;
      if (descriptors[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) protection |= PROT_READ | PROT_WRITE;
    }
    mprotect(reinterpret_cast<void*>(address), size_bytes, protection);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags) {
  return driver_call(__func__, [&] {
    const std::shared_ptr<Physical> physical = find_physical(handle);
    if (out == nullptr || physical == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    if (!(physical->properties.requestedHandleTypes & type)) return CUDA_ERROR_INVALID_VALUE;
    *static_cast<int*>(out) = fcntl(physical->file, F_DUPFD_CLOEXEC, 0);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* shared, CUmemAllocationHandleType type) {
  return driver_call(__func__, [&] {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    auto physical = std::make_shared<Physical>();
    physical->file = fcntl(static_cast<int>(reinterpret_cast<intptr_t>(shared)), F_DUPFD_CLOEXEC, 0);
    struct stat status;
    if (physical->file < 0 || fstat(physical->file, &status) != 0) return CUDA_ERROR_INVALID_VALUE;
    physical->size_bytes = static_cast<size_t>(status.st_size);
    physical->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    physical->properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    *out = add_handle(std::move(physical));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  return driver_call(__func__, [&] {
    const std::shared_ptr<Physical> physical = find_physical(handle);
    if (properties == nullptr || physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *properties = physical->properties;
    return CUDA_SUCCESS;
  });
}

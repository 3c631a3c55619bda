// What devices are there? cuInit, versions and cuDevice*.
#include <pthread.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "handles.h"
#include "pool.h"
#include "usage.h"

namespace sim {
namespace {

// A device's address space is this many times its memory, so that free memory is always allocatable in one piece.
constexpr size_t kArenaFactor = 4;

bool reserve_arena(RangeAllocator& arena, size_t size_bytes) {
  void* start = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return false;
  madvise(start, size_bytes, MADV_DONTDUMP);
  arena.give(reinterpret_cast<Address>(start), size_bytes);
  return true;
}

CUresult build_machine() {
  Machine& m = machine();
  if (settings().device_count == 0) return CUDA_ERROR_NO_DEVICE;
  if (!reserve_arena(m.host_arena, kHostArenaBytes)) return CUDA_ERROR_OPERATING_SYSTEM;
  m.devices.resize(settings().device_count);
  for (size_t i = 0; i < m.devices.size(); i++) {
    Device& device = m.devices[i];
    device.total_bytes = settings().device_bytes;
    if (!reserve_arena(device.arena, round_up(device.total_bytes, kPageBytes) * kArenaFactor))
      return CUDA_ERROR_OPERATING_SYSTEM;
    device.default_pool = device.current_pool = make_pool(static_cast<int>(i));
    device.default_pool->is_default = true;
  }
  pthread_atfork(nullptr, nullptr, [] { machine().forked.store(true, std::memory_order_relaxed); });
  return CUDA_SUCCESS;
}

// What programs and libraries look at before they trust a device; anything else is 0.
int attribute_value(CUdevice_attribute attribute, CUdevice device) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return 227 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return 228 << 10;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return 64 << 10;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH: return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: return 64 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return 2048;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: return static_cast<int>(kAlignment);
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return kMultiprocessors;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return 1000000;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 9;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return 0;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES: return CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return 1 + device;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return 2;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: return 1;
    default: return 0;
  }
}

std::string bus_id(CUdevice device) {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02X:00.0", 1 + device);
  return text;
}

CUresult write_uuid(CUuuid* uuid, CUdevice device) {
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memcpy(uuid->bytes, kUuid, 15);
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace sim

using namespace sim;

CUresult cuInit(unsigned int flags) {
  if (CUresult failure = requested_failure(__func__)) return failure;
  Machine& m = machine();
  if (m.forked.load(std::memory_order_relaxed)) return CUDA_ERROR_NOT_INITIALIZED;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard guard(m.lock);
  if (m.initialised.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  if (CUresult error = build_machine()) return error;
  m.initialised.store(true, std::memory_order_release);  // pairs with driver_usable: the devices are there
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return driver_call(__func__, [&] {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetCount(int* count) {
  return driver_call(__func__, [&] {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<int>(machine().devices.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return driver_call(__func__, [&] {
    if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(name, static_cast<size_t>(length), "Simulated GPU");
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return driver_call(__func__, [&] { return write_uuid(uuid, device); });
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return driver_call(__func__, [&] { return write_uuid(uuid, device); });
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  return driver_call(__func__, [&] {
    if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = machine().devices[device].total_bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return driver_call(__func__, [&] {
    if (value == nullptr || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute_value(attribute, device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  return driver_call(__func__, [&] {
    if (text == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(text, static_cast<size_t>(length), "%s", bus_id(device).c_str());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  return driver_call(__func__, [&] {
    if (device == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < machine().devices.size(); i++) {
      if (bus_id(static_cast<int>(i)) != text) continue;
      *device = static_cast<int>(i);
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return driver_call(__func__, [&] {
    if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device) || !valid_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
  });
}

// What do all wrappers of the driver have in common? See driver_calls.h.
#include "interpose/driver_calls.h"

#include "interpose/clock.h"

namespace vramtrack {
namespace {

int current_device() {
  const OwnWork work;
  CUdevice device;
  return VRAMTRACK_REAL(cuCtxGetDevice)(&device) == CUDA_SUCCESS ? device : -1;
}

uint64_t current_context() {
  const OwnWork work;
  CUcontext context = nullptr;
  return VRAMTRACK_REAL(cuCtxGetCurrent)(&context) == CUDA_SUCCESS ? reinterpret_cast<uint64_t>(context) : 0;
}

CUmemoryPool current_pool(int device) {
  const OwnWork work;
  CUmemoryPool pool = nullptr;
  return VRAMTRACK_REAL(cuDeviceGetMemPool)(&pool, device) == CUDA_SUCCESS ? pool : nullptr;
}

// Of a pool that was not created: a device's default one. -1: it is none that we know.
int device_of_default_pool(CUmemoryPool pool) {
  const OwnWork work;
  int count = 0;
  if (VRAMTRACK_REAL(cuDeviceGetCount)(&count) != CUDA_SUCCESS) return -1;
  for (int device = 0; device < count; ++device) {
    CUmemoryPool is = nullptr;
    if (VRAMTRACK_REAL(cuDeviceGetDefaultMemPool)(&is, device) == CUDA_SUCCESS && is == pool) return device;
  }
  return -1;
}

void describe(int device) {
  char name[128];
  size_t total_bytes = 0;
  CUuuid uuid = {};
  {
    const OwnWork work;
    if (VRAMTRACK_REAL(cuDeviceGetName)(name, sizeof name, device) != CUDA_SUCCESS) return;
    if (VRAMTRACK_REAL(cuDeviceTotalMem_v2)(&total_bytes, device) != CUDA_SUCCESS) return;
    VRAMTRACK_REAL(cuDeviceGetUuid_v2)(&uuid, device);  // stays zero where there is none
  }
  describe_device(device, {name, total_bytes, uuid.bytes});
}

}  // namespace

CUgraph captured_graph(CUstream stream, DefaultStream default_stream) {
  const OwnWork work;
  const auto real = default_stream == DefaultStream::kLegacy ? VRAMTRACK_REAL(cuStreamGetCaptureInfo_v2)
                                                             : VRAMTRACK_REAL(cuStreamGetCaptureInfo_v2_ptsz);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = nullptr;
  const CUresult result = real(stream, &status, nullptr, &graph, nullptr, nullptr);
  return result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE ? graph : nullptr;
}

void context_in_use(int device, uint64_t context) {
  if (!recording_wanted() || handle_is_known(context, format::Kind::kContext)) return;
  driver_handle_created({format::Kind::kContext, device, context, context});
  if (!device_described(device)) describe(device);
}

PendingAllocation::PendingAllocation(format::Kind kind, uint64_t size) : kind_(kind), size_(size), wanted_(recording_wanted()) {
  if (wanted_ && on_device()) device_ = current_device();
  if (wanted_ && kind != format::Kind::kStreamOrdered) began_ns_ = monotonic_ns();
}

CUresult PendingAllocation::finish_on_stream(CUresult result, const CUdeviceptr* address, CUmemoryPool pool, CUstream stream,
                                             DefaultStream default_stream) const {
  if (result != CUDA_SUCCESS) {
    refused(result);
  } else if (wanted_ && address && *address) {
    if (const CUgraph graph = captured_graph(stream, default_stream)) {
      graph_node_added({(uint64_t)graph, *address, size_, device_});
    } else {
      const CUmemoryPool from = pool ? pool : current_pool(device_);
      record(pool ? device_of_pool((uint64_t)pool, device_) : device_, *address, size_, (uint64_t)from);
      ask_pool(from, static_cast<int64_t>(size_));
    }
  }
  return result;
}

void PendingAllocation::refused(CUresult result) const {
  // On a thread that has no context yet the runtime tries, is told so, makes one current and tries again.
  if (!wanted_ || result == CUDA_ERROR_INVALID_CONTEXT) return;
  driver_refused({kind_, device_, size_, result, result == CUDA_ERROR_OUT_OF_MEMORY});
}

void PendingAllocation::succeeded(uint64_t address, uint64_t size) const {
  if (wanted_) record(device_, address, size, current_context());
}

void PendingAllocation::record(int device, uint64_t address, uint64_t size, uint64_t owner) const {
  const uint64_t driver_ns = began_ns_ ? monotonic_ns() - began_ns_ : 0;
  driver_allocated({kind_, device, address, size, owner, driver_ns});
  if (on_device() && device >= 0 && !device_described(device)) describe(device);
}

CUresult told_handle(format::Kind kind, CUresult result, uint64_t handle) {
  if (handle && recording_wanted()) driver_handle_created({kind, current_device(), handle, current_context()});
  return result;
}

void tell_counted_memory(const CountedMemoryReport& memory) {
  if (!recording_wanted()) return;
  counted_memory_made(memory);
  if (memory.device >= 0 && !device_described(memory.device)) describe(memory.device);
}

int device_of_memory(CUmemGenericAllocationHandle handle) {
  const OwnWork work;
  CUmemAllocationProp properties = {};
  if (VRAMTRACK_REAL(cuMemGetAllocationPropertiesFromHandle)(&properties, handle) != CUDA_SUCCESS) return current_device();
  return properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? properties.location.id : -1;
}

int device_at(CUdeviceptr address) {
  const OwnWork work;
  int device = -1;
  VRAMTRACK_REAL(cuPointerGetAttribute)(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  return device;
}

// The size is told only once it is mapped.
void tell_imported_memory(CUmemGenericAllocationHandle handle) {
  if (recording_wanted()) tell_counted_memory({format::Kind::kPhysical, device_of_memory(handle), handle, 0, 0, true});
}

uint64_t size_at(CUdeviceptr address) {
  const OwnWork work;
  CUdeviceptr base = 0;
  size_t size = 0;
  return VRAMTRACK_REAL(cuMemGetAddressRange_v2)(&base, &size, address) == CUDA_SUCCESS ? size : 0;
}

void tell_opened_memory(CUdeviceptr address) {
  if (!recording_wanted()) return;
  tell_counted_memory({format::Kind::kIpc, current_device(), address, size_at(address), current_context(), true});
}

void tell_user_object(CUuserObject object, unsigned references) {
  if (!recording_wanted()) return;
  counted_memory_made({format::Kind::kUserObject, -1, (uint64_t)object, 1, 0, false});
  user_object_retained((uint64_t)object, references - 1);
}

void tell_refused(const RefusedAllocation& refused) {
  if (recording_wanted()) driver_refused(refused);
}

// --- pools -----------------------------------------------------------------------------------------------------------------

void ask_pool(CUmemoryPool pool, int64_t change) {
  const uint64_t key = (uint64_t)pool;
  if (!key || !recording_wanted()) return;
  PoolWants wants = pool_used(key, change);
  if (wants == PoolWants::kDescription) {
    pool_made({key, device_of_default_pool(pool), false});
    wants = pool_used(key, change);
  }
  if (wants != PoolWants::kMeasure) return;
  cuuint64_t reserved = 0, used = 0;
  {
    const OwnWork work;
    const auto ask = VRAMTRACK_REAL(cuMemPoolGetAttribute);
    if (ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) != CUDA_SUCCESS) return;
    if (ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) != CUDA_SUCCESS) return;
  }
  pool_measured(key, reserved, used);
}

void ask_graph_pool(int device) {
  const uint64_t key = graph_pool_key(device);
  if (device < 0 || !recording_wanted()) return;
  PoolWants wants = pool_used(key, 0);
  if (wants == PoolWants::kDescription) {
    pool_made({key, device, false});
    wants = pool_used(key, 0);
  }
  if (wants != PoolWants::kMeasure) return;
  cuuint64_t reserved = 0, used = 0;
  {
    const OwnWork work;
    const auto ask = VRAMTRACK_REAL(cuDeviceGetGraphMemAttribute);
    if (ask(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved) != CUDA_SUCCESS) return;
    if (ask(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used) != CUDA_SUCCESS) return;
  }
  pool_measured(key, reserved, used);
}

void tell_threshold(CUmemoryPool pool, uint64_t bytes) {
  if (!recording_wanted()) return;
  ask_pool(pool, 0);  // it may not be known yet
  pool_threshold_set((uint64_t)pool, bytes);
}

}  // namespace vramtrack

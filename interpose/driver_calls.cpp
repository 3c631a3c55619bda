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

uint64_t current_pool(int device) {
  const OwnWork work;
  CUmemoryPool pool = nullptr;
  return VRAMTRACK_REAL(cuDeviceGetMemPool)(&pool, device) == CUDA_SUCCESS ? reinterpret_cast<uint64_t>(pool) : 0;
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
      record(*address, size_, pool ? reinterpret_cast<uint64_t>(pool) : current_pool(device_));
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
  if (wanted_) record(address, size, current_context());
}

void PendingAllocation::record(uint64_t address, uint64_t size, uint64_t owner) const {
  const uint64_t driver_ns = began_ns_ ? monotonic_ns() - began_ns_ : 0;
  driver_allocated({kind_, device_, address, size, owner, driver_ns});
  if (on_device() && device_ >= 0 && !device_described(device_)) describe(device_);
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

// The size is told only once it is mapped.
void tell_imported_memory(CUmemGenericAllocationHandle handle) {
  if (!recording_wanted()) return;
  CUmemAllocationProp properties = {};
  CUresult result;
  {
    const OwnWork work;
    result = VRAMTRACK_REAL(cuMemGetAllocationPropertiesFromHandle)(&properties, handle);
  }
  const bool on_device = properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const int device = result != CUDA_SUCCESS ? current_device() : on_device ? properties.location.id : -1;
  tell_counted_memory({format::Kind::kPhysical, device, handle, 0, 0, true});
}

void tell_opened_memory(CUdeviceptr address) {
  if (!recording_wanted()) return;
  CUdeviceptr base = 0;
  size_t size = 0;
  {
    const OwnWork work;
    VRAMTRACK_REAL(cuMemGetAddressRange_v2)(&base, &size, address);
  }
  tell_counted_memory({format::Kind::kIpc, current_device(), address, size, current_context(), true});
}

void tell_refused(const RefusedAllocation& refused) {
  if (recording_wanted()) driver_refused(refused);
}

bool primary_context_is_gone(CUdevice device) {
  const OwnWork work;
  unsigned flags;
  int active = 1;
  return VRAMTRACK_REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS && !active;
}

}  // namespace vramtrack

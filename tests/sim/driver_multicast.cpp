// What do multicast objects hold? A place for memory of each of their devices; they have none themselves.
//
// The real driver waits in a binding until all devices are added. Here the call says that it is too early. What is written through
// a mapping of the object does not reach the memory that is bound to it.
#include <algorithm>

#include "virtual.h"

namespace sim {
namespace {

bool valid(const CUmulticastObjectProp* properties) {
  return properties != nullptr && properties->flags == 0 && properties->numDevices != 0 &&
         properties->numDevices <= machine().devices.size() && properties->size != 0 && is_multiple(properties->size);
}

bool is_member(const Multicast& multicast, int device) {
  return std::find(multicast.devices.begin(), multicast.devices.end(), device) != multicast.devices.end();
}

bool overlaps(const Multicast& multicast, int device, size_t offset, size_t size_bytes) {
  return std::any_of(multicast.bindings.begin(), multicast.bindings.end(), [&](const Binding& b) {
    return b.device == device && offset < b.offset + b.size_bytes && b.offset < offset + size_bytes;
  });
}

// A multiple of the granularity within an object of that size?
bool fits(size_t offset, size_t size_bytes, size_t whole_bytes) {
  return is_multiple(offset) && is_multiple(size_bytes) && size_bytes != 0 && offset <= whole_bytes && size_bytes <= whole_bytes - offset;
}

// Null if the handle is none or plain memory's.
std::shared_ptr<Physical> find_object(CUmemGenericAllocationHandle handle) {
  std::shared_ptr<Physical> found = find_physical(handle);
  return found != nullptr && found->multicast != nullptr ? found : nullptr;
}

CUresult bind_memory(Physical& object, size_t offset, const std::shared_ptr<Physical>& memory, size_t size_bytes) {
  Multicast& multicast = *object.multicast;
  if (memory == nullptr || memory->multicast != nullptr || !fits(offset, size_bytes, object.size_bytes)) return CUDA_ERROR_INVALID_VALUE;
  const bool shared = object.properties.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
  if (shared && memory->properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_INVALID_VALUE;
  if (multicast.devices.size() < multicast.device_count) return CUDA_ERROR_ILLEGAL_STATE;
  const int device = memory->properties.location.id;
  if (!on_device(memory->properties) || !is_member(multicast, device)) return CUDA_ERROR_INVALID_DEVICE;
  if (overlaps(multicast, device, offset, size_bytes)) return CUDA_ERROR_INVALID_VALUE;
  multicast.bindings.push_back({device, offset, size_bytes, memory});
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace sim

using namespace sim;

CUresult cuMulticastGetGranularity(size_t* granularity, const CUmulticastObjectProp* properties, CUmulticastGranularity_flags) {
  return driver_call(__func__, [&] {
    if (granularity == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *granularity = kGranularity;
    return CUDA_SUCCESS;
  });
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle* out, const CUmulticastObjectProp* properties) {
  return driver_call(__func__, [&] {
    if (out == nullptr || !valid(properties)) return CUDA_ERROR_INVALID_VALUE;
    CUmemAllocationProp of_object{};
    of_object.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(properties->handleTypes);
    std::shared_ptr<Physical> object = make_physical(of_object, properties->size);
    if (object == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    object->multicast = std::make_unique<Multicast>();
    object->multicast->device_count = properties->numDevices;
    *out = add_handle(std::move(object));
    return CUDA_SUCCESS;
  });
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  return driver_call(__func__, [&] {
    const std::shared_ptr<Physical> object = find_object(handle);
    if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    Multicast& multicast = *object->multicast;
    if (is_member(multicast, device) || multicast.devices.size() == multicast.device_count) return CUDA_ERROR_INVALID_VALUE;
    multicast.devices.push_back(device);
    return CUDA_SUCCESS;
  });
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset, CUmemGenericAllocationHandle memory_handle,
                            size_t memory_offset, size_t size_bytes, unsigned long long flags) {
  return driver_call(__func__, [&] {
    const std::shared_ptr<Physical> object = find_object(handle), memory = find_physical(memory_handle);
    if (object == nullptr || memory == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!fits(memory_offset, size_bytes, memory->size_bytes)) return CUDA_ERROR_INVALID_VALUE;
    return bind_memory(*object, offset, memory, size_bytes);
  });
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset, CUdeviceptr address, size_t size_bytes,
                             unsigned long long flags) {
  return driver_call(__func__, [&] {
    const std::shared_ptr<Physical> object = find_object(handle);
    if (object == nullptr || flags != 0 || !is_multiple(address)) return CUDA_ERROR_INVALID_VALUE;
    return bind_memory(*object, offset, find_mapped(address, size_bytes), size_bytes);
  });
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, size_t size_bytes) {
  return driver_call(__func__, [&] {
    const std::shared_ptr<Physical> object = find_object(handle);
    if (object == nullptr || !fits(offset, size_bytes, object->size_bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const size_t unbound = std::erase_if(object->multicast->bindings, [&](const Binding& b) {
      return b.device == device && b.offset == offset && b.size_bytes == size_bytes;
    });
    return unbound != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

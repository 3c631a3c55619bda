// What do the linear and managed allocators, their frees and the questions about pointers do?
#include <cstring>

#include "capture.h"
#include "memory.h"

namespace sim {
namespace {

constexpr size_t kPitchAlignment = 512;

CUresult allocate_linear(CUctx_st& context, CUdeviceptr* out, size_t size_bytes) {
  if (out == nullptr || size_bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = forbid_during_capture()) return error;
  *out = 0;
  std::optional<Address> address = take_device_memory(context.device, size_bytes);
  if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
  add_block(*address, {size_bytes, BlockKind::kLinear, context.device, &context, nullptr, 0, 0});
  *out = *address;
  return CUDA_SUCCESS;
}

bool on_host(const Block& block) {
  if (block.kind == BlockKind::kPool) return block.pool->on_host();
  return block.kind == BlockKind::kHost || block.kind == BlockKind::kRegistered;
}

template <class T>
void store(void* out, T value) {
  std::memcpy(out, &value, sizeof value);
}

// Writes one attribute of a known pointer.
CUresult write_attribute(void* out, CUpointer_attribute attribute, Address pointer, Address start, const Block& block) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: store(out, block.owner); break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: store(out, on_host(block) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE); break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: store(out, pointer); break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!on_host(block) && block.kind != BlockKind::kManaged) return CUDA_ERROR_INVALID_VALUE;
      store(out, pointer);
      break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: store(out, 0u); break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: store(out, block.id); break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: store(out, block.kind == BlockKind::kManaged); break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: store(out, block.device); break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: store(out, block.kind == BlockKind::kLinear); break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: store(out, start); break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: store(out, block.size_bytes); break;
    case CU_POINTER_ATTRIBUTE_MAPPED: store(out, true); break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: store(out, block.pool != nullptr ? Address{block.pool->handle_types} : 0); break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: store(out, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE); break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: store(out, block.pool); break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// What cuPointerGetAttributes writes for a pointer the driver does not know, or an attribute it does not have.
void write_absent(void* out, CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: store(out, -2); break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: store(out, 0); break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED: store(out, false); break;
    default: store<Address>(out, 0); break;
  }
}

}  // namespace
}  // namespace sim

using namespace sim;

CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  return context_call(__func__, [&](CUctx_st& context) {
    if (free_bytes == nullptr || total_bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Device& device = device_of(context);
    *free_bytes = device.total_bytes - device.used_bytes;
    *total_bytes = device.total_bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t size_bytes) {
  return context_call(__func__, [&](CUctx_st& context) { return allocate_linear(context, out, size_bytes); });
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width_bytes, size_t height, unsigned int element) {
  return context_call(__func__, [&](CUctx_st& context) {
    if (pitch == nullptr || (element != 4 && element != 8 && element != 16)) return CUDA_ERROR_INVALID_VALUE;
    size_t row_bytes = round_up(width_bytes, kPitchAlignment);
    size_t size_bytes;
    if (row_bytes < width_bytes || __builtin_mul_overflow(row_bytes, height, &size_bytes)) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = allocate_linear(context, out, size_bytes);
    if (result == CUDA_SUCCESS) *pitch = row_bytes;
    return result;
  });
}

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t size_bytes, unsigned int flags) {
  return context_call(__func__, [&](CUctx_st& context) {
    if (out == nullptr || size_bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = forbid_during_capture()) return error;
    std::optional<Address> address = take_host_memory(size_bytes);
    if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
    add_block(*address, {size_bytes, BlockKind::kManaged, context.device, &context, nullptr, flags, 0});
    *out = *address;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return context_call(__func__, [&](CUctx_st&) {
    if (address == 0) return CUDA_SUCCESS;
    if (CUresult error = forbid_during_capture()) return error;
    auto block = machine().blocks.find(address);
    if (block == machine().blocks.end() || !freeable(block->second)) return CUDA_ERROR_INVALID_VALUE;
    release_block(block);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size_bytes, CUdeviceptr address) {
  return context_call(__func__, [&](CUctx_st&) {
    auto block = find_block(address);
    if (block == machine().blocks.end()) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = block->first;
    if (size_bytes != nullptr) *size_bytes = block->second.size_bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr pointer) {
  return driver_call(__func__, [&] {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto block = find_block(pointer);
    if (block == machine().blocks.end()) return CUDA_ERROR_INVALID_VALUE;
    return write_attribute(out, attribute, pointer, block->first, block->second);
  });
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** out, CUdeviceptr pointer) {
  return driver_call(__func__, [&] {
    if (attributes == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto block = find_block(pointer);
    bool known = block != machine().blocks.end();
    for (unsigned i = 0; i < count; i++)
      if (!known || write_attribute(out[i], attributes[i], pointer, block->first, block->second) != CUDA_SUCCESS)
        write_absent(out[i], attributes[i]);
    return CUDA_SUCCESS;
  });
}

// What do pinned allocations and registrations of host memory do?
#include "capture.h"
#include "memory.h"

namespace sim {
namespace {

constexpr unsigned kHostAllocFlags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

CUresult allocate_pinned(const char* name, void** out, size_t size_bytes, unsigned flags) {
  return context_call(name, [&](CUctx_st& context) {
    if (out == nullptr || size_bytes == 0 || (flags & ~kHostAllocFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = forbid_during_capture()) return error;
    std::optional<Address> address = take_host_memory(size_bytes);
    if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
    add_block(*address, {size_bytes, BlockKind::kHost, context.device, &context, nullptr, flags, 0});
    *out = reinterpret_cast<void*>(*address);
    return CUDA_SUCCESS;
  });
}

bool overlaps_a_block(Address address, size_t size_bytes) {
  auto& blocks = machine().blocks;
  auto next = blocks.lower_bound(address);
  return find_block(address) != blocks.end() || (next != blocks.end() && next->first < address + size_bytes);
}

CUresult register_pinned(const char* name, void* pointer, size_t size_bytes, unsigned flags) {
  return context_call(name, [&](CUctx_st& context) {
    if (pointer == nullptr || size_bytes == 0 || (flags & ~kRegisterFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
    auto address = reinterpret_cast<Address>(pointer);
    if (overlaps_a_block(address, size_bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    add_block(address, {size_bytes, BlockKind::kRegistered, context.device, &context, nullptr, flags, 0});
    return CUDA_SUCCESS;
  });
}

// The host block that a pointer lies in, end() for any other pointer.
std::map<Address, Block>::iterator find_host_block(const void* pointer) {
  auto block = find_block(reinterpret_cast<Address>(pointer));
  auto none = machine().blocks.end();
  if (block == none) return none;
  bool host = block->second.kind == BlockKind::kHost || block->second.kind == BlockKind::kRegistered;
  return host ? block : none;
}

}  // namespace
}  // namespace sim

using namespace sim;

CUresult cuMemAllocHost_v2(void** out, size_t size_bytes) { return allocate_pinned(__func__, out, size_bytes, 0); }

CUresult cuMemHostAlloc(void** out, size_t size_bytes, unsigned int flags) {
  return allocate_pinned(__func__, out, size_bytes, flags);
}

CUresult cuMemFreeHost(void* pointer) {
  return context_call(__func__, [&](CUctx_st&) {
    if (pointer == nullptr) return CUDA_SUCCESS;
    if (CUresult error = forbid_during_capture()) return error;
    auto block = machine().blocks.find(reinterpret_cast<Address>(pointer));
    if (block == machine().blocks.end() || block->second.kind != BlockKind::kHost) return CUDA_ERROR_INVALID_VALUE;
    release_block(block);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostRegister(void* pointer, size_t size_bytes, unsigned int flags) {
  return register_pinned(__func__, pointer, size_bytes, flags);
}

CUresult cuMemHostRegister_v2(void* pointer, size_t size_bytes, unsigned int flags) {
  return register_pinned(__func__, pointer, size_bytes, flags);
}

CUresult cuMemHostUnregister(void* pointer) {
  return context_call(__func__, [&](CUctx_st&) {
    auto block = machine().blocks.find(reinterpret_cast<Address>(pointer));
    if (block == machine().blocks.end() || block->second.kind != BlockKind::kRegistered)
      return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    release_block(block);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned int flags) {
  return context_call(__func__, [&](CUctx_st&) {
    if (out == nullptr || flags != 0 || find_host_block(pointer) == machine().blocks.end())
      return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<Address>(pointer);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  return context_call(__func__, [&](CUctx_st&) {
    auto block = find_host_block(pointer);
    if (flags == nullptr || block == machine().blocks.end()) return CUDA_ERROR_INVALID_VALUE;
    *flags = block->second.flags | CU_MEMHOSTALLOC_DEVICEMAP;  // implied by unified addressing
    return CUDA_SUCCESS;
  });
}

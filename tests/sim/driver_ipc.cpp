// What does sharing of device memory between processes do? A handle names the memory's process, address and size.
//
// What is opened is a copy of the exporter's bytes at that moment: enough to count mappings, not to exchange data.
#include <unistd.h>

#include <cstring>

#include "memory.h"

namespace sim {
namespace {

struct Shared {
  pid_t process;
  Address address;
  size_t size_bytes;
  unsigned long long id;

  auto operator<=>(const Shared&) const = default;
};
static_assert(sizeof(Shared) <= sizeof(CUipcMemHandle));

struct Opened {
  Address address;
  int count;
};

std::map<Shared, Opened>& opened() {
  static auto& instance = *new std::map<Shared, Opened>;  // under the machine's lock
  return instance;
}

}  // namespace
}  // namespace sim

using namespace sim;

CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  return context_call(__func__, [&](CUctx_st&) {
    auto block = find_block(address);
    if (out == nullptr || block == machine().blocks.end() || block->second.kind != BlockKind::kLinear) return CUDA_ERROR_INVALID_VALUE;
    const Shared shared = {getpid(), block->first, block->second.size_bytes, block->second.id};
    std::memset(out, 0, sizeof *out);
    std::memcpy(out, &shared, sizeof shared);
    return CUDA_SUCCESS;
  });
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  return context_call(__func__, [&](CUctx_st& context) {
    Shared shared;
    std::memcpy(&shared, &handle, sizeof shared);
    if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    if (shared.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
    auto known = opened().find(shared);
    if (known == opened().end()) {
      std::optional<Address> address = take_host_memory(shared.size_bytes);
      if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
      if (!copy_from_process(shared.process, shared.address, *address, shared.size_bytes)) {
        give_host_memory(*address, shared.size_bytes);
        return CUDA_ERROR_INVALID_HANDLE;
      }
      add_block(*address, {shared.size_bytes, BlockKind::kMapped, context.device, nullptr, nullptr, 0, 0});
      known = opened().emplace(shared, Opened{*address, 0}).first;
    }
    ++known->second.count;
    *out = known->second.address;
    return CUDA_SUCCESS;
  });
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return context_call(__func__, [&](CUctx_st&) {
    for (auto& [shared, open] : opened()) {
      if (open.address != address) continue;
      if (--open.count > 0) return CUDA_SUCCESS;
      machine().blocks.erase(address);
      give_host_memory(address, shared.size_bytes);
      opened().erase(shared);
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

// What does sharing of pools between processes do? A pool's file names its process and number, a pointer's data also address and size.
//
// What is imported is a copy of the exporter's bytes at that moment, as for cuIpcOpenMemHandle.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "memory.h"
#include "pool.h"

namespace sim {
namespace {

struct SharedPool {
  int process;
  int device;
  unsigned long long id;
};

struct SharedPointer {
  int process;
  unsigned long long pool_id;
  Address address;
  size_t size_bytes;
};
static_assert(sizeof(SharedPointer) <= sizeof(CUmemPoolPtrExportData));

// A file that says which pool it is of, -1 if there can be none.
int make_file(const SharedPool& shared) {
  const int file = memfd_create("simulated memory pool", MFD_CLOEXEC);
  if (file < 0 || write(file, &shared, sizeof shared) == ssize_t{sizeof shared}) return file;
  close(file);
  return -1;
}

bool exportable(const CUmemPoolHandle_st& pool) {
  return pool.exporter == 0 && pool.handle_types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
}

CUresult import_pointer(CUmemPoolHandle_st& pool, const SharedPointer& shared, CUdeviceptr& out) {
  std::optional<Address> address = map_pages(-1, 0, shared.size_bytes);
  if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!copy_from_process(shared.process, shared.address, *address, shared.size_bytes)) {
    unmap_pages(*address, shared.size_bytes);
    return CUDA_ERROR_INVALID_VALUE;
  }
  add_block(*address, {shared.size_bytes, BlockKind::kImported, pool.device, nullptr, &pool, 0, 0});
  pool.used_bytes += round_up(shared.size_bytes, kAlignment);
  pool.used_high_bytes = std::max(pool.used_high_bytes, pool.used_bytes);
  out = *address;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace sim

using namespace sim;

CUresult cuMemPoolExportToShareableHandle(void* out, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags) {
  return driver_call(__func__, [&] {
    if (out == nullptr || flags != 0 || !usable_pool(pool) || !exportable(*pool)) return CUDA_ERROR_INVALID_VALUE;
    if (type != pool->handle_types) return CUDA_ERROR_INVALID_VALUE;
    const int file = make_file({getpid(), pool->device, pool->id});
    if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    *static_cast<int*>(out) = file;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* out, void* handle, CUmemAllocationHandleType type, unsigned long long flags) {
  return driver_call(__func__, [&] {
    SharedPool shared;
    const int file = static_cast<int>(reinterpret_cast<intptr_t>(handle));
    if (out == nullptr || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
    if (pread(file, &shared, sizeof shared, 0) != ssize_t{sizeof shared}) return CUDA_ERROR_INVALID_VALUE;
    if (shared.process <= 0 || !valid_device(shared.device)) return CUDA_ERROR_INVALID_VALUE;
    *out = make_pool(shared.device);
    (*out)->exporter = shared.process;
    (*out)->id = shared.id;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* out, CUdeviceptr address) {
  return driver_call(__func__, [&] {
    auto block = machine().blocks.find(address);
    if (out == nullptr || block == machine().blocks.end() || block->second.kind != BlockKind::kPool) return CUDA_ERROR_INVALID_VALUE;
    if (!exportable(*block->second.pool)) return CUDA_ERROR_INVALID_VALUE;
    const SharedPointer shared = {getpid(), block->second.pool->id, address, block->second.size_bytes};
    std::memset(out, 0, sizeof *out);
    std::memcpy(out, &shared, sizeof shared);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool pool, CUmemPoolPtrExportData* data) {
  return driver_call(__func__, [&] {
    if (out == nullptr || data == nullptr || !usable_pool(pool) || pool->exporter == 0) return CUDA_ERROR_INVALID_VALUE;
    SharedPointer shared;
    std::memcpy(&shared, data, sizeof shared);
    if (shared.process != pool->exporter || shared.pool_id != pool->id || shared.size_bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    return import_pointer(*pool, shared, *out);
  });
}

// What does memory of other APIs do? Any file that can be mapped is taken to be such memory.
//
// It is the other API's: mapping it takes none of the device's. Each buffer and each array is a mapping of its own, which lives on
// when the memory object is destroyed.
#include <sys/stat.h>
#include <unistd.h>

#include "array.h"
#include "memory.h"

ImportedPages::~ImportedPages() { sim::unmap_pages(address, size_bytes); }
CUextMemory_st::~CUextMemory_st() { close(file); }

namespace sim {
namespace {

// Is the file that long, and can it be mapped?
CUresult check_file(int file, size_t size_bytes) {
  struct stat status;
  if (fstat(file, &status) != 0) return CUDA_ERROR_INVALID_HANDLE;
  if (S_ISREG(status.st_mode) && static_cast<size_t>(status.st_size) < size_bytes) return CUDA_ERROR_INVALID_VALUE;
  std::optional<Address> probe = map_pages(file, 0, size_bytes);
  if (!probe) return CUDA_ERROR_OPERATING_SYSTEM;
  unmap_pages(*probe, size_bytes);
  return CUDA_SUCCESS;
}

bool inside(const CUextMemory_st& memory, size_t offset, size_t size_bytes) {
  return size_bytes != 0 && offset <= memory.size_bytes && size_bytes <= memory.size_bytes - offset;
}

size_t packed_bytes(const CUmipmappedArray_st& mipmapped) {
  size_t sum = 0;
  for (const auto& level : mipmapped.levels) sum += sim::packed_bytes(level->descriptor);
  return sum;
}

// Levels lie one after the other, without gaps.
void place_levels(CUmipmappedArray_st& mipmapped, Address start) {
  for (Address next = start; const auto& level : mipmapped.levels) {
    level->address = next;
    next += sim::packed_bytes(level->descriptor);
  }
}

}  // namespace
}  // namespace sim

using namespace sim;

CUresult cuImportExternalMemory(CUexternalMemory* out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* d) {
  return context_call(__func__, [&](CUctx_st& context) {
    if (out == nullptr || d == nullptr || d->size == 0) return CUDA_ERROR_INVALID_VALUE;
    if ((d->flags & ~CUDA_EXTERNAL_MEMORY_DEDICATED) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (d->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD) return CUDA_ERROR_NOT_SUPPORTED;
    if (CUresult error = check_file(d->handle.fd, d->size)) return error;
    auto memory = std::make_unique<CUextMemory_st>();
    memory->context = &context;
    memory->file = d->handle.fd;
    memory->size_bytes = d->size;
    *out = machine().external_memories.add(std::move(memory));
    return CUDA_SUCCESS;
  });
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr* out, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* d) {
  return context_call(__func__, [&](CUctx_st& context) {
    if (!machine().external_memories.contains(memory)) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr || d == nullptr || d->flags != 0 || !inside(*memory, d->offset, d->size)) return CUDA_ERROR_INVALID_VALUE;
    std::optional<Address> address = map_pages(memory->file, d->offset, d->size);
    if (!address) return CUDA_ERROR_OPERATING_SYSTEM;
    add_block(*address, {d->size, BlockKind::kImported, context.device, &context, nullptr, 0, 0});
    *out = *address;
    return CUDA_SUCCESS;
  });
}

CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray* out, CUexternalMemory memory,
                                                 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC* d) {
  return context_call(__func__, [&](CUctx_st& context) {
    if (!machine().external_memories.contains(memory)) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr || d == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto mipmapped = describe_levels(&context, d->arrayDesc, d->numLevels);
    if (mipmapped == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const size_t size_bytes = packed_bytes(*mipmapped);
    if (!inside(*memory, d->offset, size_bytes)) return CUDA_ERROR_INVALID_VALUE;
    std::optional<Address> address = map_pages(memory->file, d->offset, size_bytes);
    if (!address) return CUDA_ERROR_OPERATING_SYSTEM;
    place_levels(*mipmapped, *address);
    mipmapped->imported.reset(new ImportedPages{*address, size_bytes});
    *out = machine().mipmapped_arrays.add(std::move(mipmapped));
    return CUDA_SUCCESS;
  });
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory) {
  return driver_call(__func__,
                     [&] { return machine().external_memories.remove(memory) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; });
}

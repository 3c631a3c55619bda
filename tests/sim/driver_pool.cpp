// What do cuMemPool* and the stream-ordered allocator do?
#include <cstring>

#include "capture.h"
#include "memory.h"
#include "pool.h"

namespace sim {
namespace {

std::optional<Address> take_chunk(const CUmemPoolHandle_st& pool, size_t size_bytes) {
  return pool.on_host() ? take_host_memory(size_bytes) : take_device_memory(pool.device, size_bytes);
}

void give_chunk(const CUmemPoolHandle_st& pool, const CUmemPoolHandle_st::Chunk& chunk) {
  if (pool.on_host()) give_host_memory(chunk.address, chunk.size_bytes);
  else give_device_memory(pool.device, chunk.address, chunk.size_bytes);
}

// Gets the pool more memory for at least `size_bytes`: a whole chunk, or just what is asked when no chunk is left.
bool grow(CUmemPoolHandle_st& pool, size_t size_bytes) {
  for (size_t multiple : {kPoolChunkBytes, pool.on_host() ? kPageBytes : kAlignment}) {
    size_t chunk_bytes = round_up(size_bytes, multiple);
    if (pool.max_bytes != 0 && pool.reserved_bytes + chunk_bytes > pool.max_bytes) continue;
    std::optional<Address> chunk = take_chunk(pool, chunk_bytes);
    if (!chunk) continue;
    pool.chunks.push_back({*chunk, chunk_bytes});
    pool.unused.give(*chunk, chunk_bytes);
    pool.reserved_bytes += chunk_bytes;
    pool.reserved_high_bytes = std::max(pool.reserved_high_bytes, pool.reserved_bytes);
    return true;
  }
  return false;
}

bool done(const CUmemPoolHandle_st& pool) { return pool.dying && pool.reserved_bytes == 0 && pool.used_bytes == 0; }

// `device` is the stream's.
CUresult allocate(CUmemPoolHandle_st& pool, int device, size_t size_bytes, CUdeviceptr& out) {
  out = 0;
  std::optional<Address> address = take_pool_memory(pool, size_bytes);
  if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
  add_block(*address, {size_bytes, BlockKind::kPool, pool.on_host() ? device : pool.device, nullptr, &pool, 0, 0});
  out = *address;
  return CUDA_SUCCESS;
}

CUresult allocate_async(const char* name, CUdeviceptr* out, size_t size_bytes, CUmemoryPool pool, bool device_pool,
                        CUstream handle) {
  return context_call(name, [&](CUctx_st& context) {
    if (out == nullptr || size_bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    CUstream stream = find_stream(context, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (device_pool) pool = device_of(*stream->context).current_pool;
    if (!usable_pool(pool) || pool->exporter != 0) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capturing()) {
      if (pool->on_host()) return CUDA_ERROR_NOT_SUPPORTED;  // graphs have memory of devices only
      return capture_allocation(*stream, pool->device, size_bytes, *out);
    }
    return allocate(*pool, stream->context->device, size_bytes, *out);
  });
}

CUresult check_location(const CUmemPoolProps& properties) {
  switch (properties.location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE: return valid_device(properties.location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:  // no such pool is shared
      return properties.handleTypes == CU_MEM_HANDLE_TYPE_NONE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA: return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

// The attributes that are sizes; null for the three flags.
size_t* size_attribute(CUmemPoolHandle_st& pool, CUmemPool_attribute attribute) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: return &pool.release_threshold_bytes;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: return &pool.reserved_bytes;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return &pool.reserved_high_bytes;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return &pool.used_bytes;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return &pool.used_high_bytes;
    default: return nullptr;
  }
}

int* flag_attribute(CUmemPoolHandle_st& pool, CUmemPool_attribute attribute) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: return &pool.reuse_follow_event;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: return &pool.reuse_opportunistic;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return &pool.reuse_internal;
    default: return nullptr;
  }
}

CUresult set_size_attribute(CUmemPoolHandle_st& pool, CUmemPool_attribute attribute, cuuint64_t value) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: pool.release_threshold_bytes = value; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:  // high marks can be reset, to the current value, by writing 0
      if (value != 0) return CUDA_ERROR_INVALID_VALUE;
      pool.reserved_high_bytes = pool.reserved_bytes;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (value != 0) return CUDA_ERROR_INVALID_VALUE;
      pool.used_high_bytes = pool.used_bytes;
      return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

bool usable_pool(CUmemoryPool pool) { return machine().pools.contains(pool) && !pool->dying; }

std::optional<Address> take_pool_memory(CUmemPoolHandle_st& pool, size_t size_bytes) {
  if (size_bytes > (pool.on_host() ? kHostArenaBytes : machine().devices[pool.device].total_bytes)) return std::nullopt;
  size_t rounded = round_up(size_bytes, kAlignment);
  std::optional<Address> address = pool.unused.take(rounded);
  if (!address && grow(pool, rounded)) address = pool.unused.take(rounded);
  if (!address) return std::nullopt;
  pool.used_bytes += rounded;
  pool.used_high_bytes = std::max(pool.used_high_bytes, pool.used_bytes);
  return address;
}

void give_pool_memory(CUmemPoolHandle_st& pool, Address address, size_t size_bytes) {
  size_t rounded = round_up(size_bytes, kAlignment);
  pool.unused.give(address, rounded);
  pool.used_bytes -= rounded;
}

void trim_pool(CUmemPoolHandle_st& pool, size_t keep_bytes) {
  std::erase_if(pool.chunks, [&](const CUmemPoolHandle_st::Chunk& chunk) {
    if (pool.reserved_bytes <= keep_bytes || !pool.unused.withdraw(chunk.address, chunk.size_bytes)) return false;
    give_chunk(pool, chunk);
    pool.reserved_bytes -= chunk.size_bytes;
    return true;
  });
}

void trim_pools_to_threshold(int device) {
  machine().pools.for_each([&](CUmemPoolHandle_st& pool) {
    if (pool.on_host() || pool.device == device) trim_pool(pool, pool.dying ? 0 : pool.release_threshold_bytes);
  });
  machine().pools.remove_if(done);
}

CUmemoryPool make_pool(int device) {
  auto pool = std::make_unique<CUmemPoolHandle_st>();
  pool->device = device;
  pool->id = machine().next_pool_id++;
  return machine().pools.add(std::move(pool));
}

}  // namespace sim

using namespace sim;

CUresult cuMemAllocAsync(CUdeviceptr* out, size_t size_bytes, CUstream stream) {
  return allocate_async(__func__, out, size_bytes, nullptr, true, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t size_bytes, CUmemoryPool pool, CUstream stream) {
  return allocate_async(__func__, out, size_bytes, pool, false, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  return context_call(__func__, [&](CUctx_st& context) {
    CUstream stream = find_stream(context, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (address == 0) return CUDA_SUCCESS;
    if (stream->capturing()) return capture_free(*stream, address);
    auto block = machine().blocks.find(address);
    if (block == machine().blocks.end() || !freeable(block->second)) return CUDA_ERROR_INVALID_VALUE;
    release_block(block);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  return driver_call(__func__, [&] {
    if (pool == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = check_location(*properties)) return error;
    if ((properties->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    *pool = make_pool(properties->location.type == CU_MEM_LOCATION_TYPE_HOST ? -1 : properties->location.id);
    (*pool)->max_bytes = properties->maxSize;
    (*pool)->handle_types = properties->handleTypes;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  return driver_call(__func__, [&] {
    if (!usable_pool(pool) || pool->is_default) return CUDA_ERROR_INVALID_VALUE;
    for (Device& device : machine().devices)
      if (device.current_pool == pool) device.current_pool = device.default_pool;
    pool->dying = true;
    trim_pool(*pool, 0);
    if (done(*pool)) machine().pools.remove(pool);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes) {
  return driver_call(__func__, [&] {
    if (!usable_pool(pool)) return CUDA_ERROR_INVALID_VALUE;
    trim_pool(*pool, keep_bytes);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return driver_call(__func__, [&] {
    if (!usable_pool(pool) || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const size_t* size = size_attribute(*pool, attribute)) {
      *static_cast<cuuint64_t*>(value) = *size;
      return CUDA_SUCCESS;
    }
    const int* flag = flag_attribute(*pool, attribute);
    if (flag == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *static_cast<int*>(value) = *flag;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return driver_call(__func__, [&] {
    if (!usable_pool(pool) || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (int* flag = flag_attribute(*pool, attribute)) {
      *flag = *static_cast<int*>(value) != 0;
      return CUDA_SUCCESS;
    }
    return set_size_attribute(*pool, attribute, *static_cast<cuuint64_t*>(value));
  });
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* descriptors, size_t count) {
  return driver_call(__func__, [&] {
    if (!usable_pool(pool) || (descriptors == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;  // every device reaches every byte: it is host memory
  });
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  return driver_call(__func__, [&] {
    if (!usable_pool(pool) || flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  return driver_call(__func__, [&] {
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *pool = machine().devices[device].default_pool;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  return driver_call(__func__, [&] {
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *pool = machine().devices[device].current_pool;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  return driver_call(__func__, [&] {
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (!usable_pool(pool) || pool->exporter != 0 || pool->device != device) return CUDA_ERROR_INVALID_VALUE;
    machine().devices[device].current_pool = pool;
    return CUDA_SUCCESS;
  });
}

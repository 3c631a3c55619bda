// How does a memory pool hold memory between a free and the next allocation? Used under the machine's lock.
#pragma once

#include "handles.h"

namespace sim {

// A block of the pool, grown by a chunk if need be. Null for out of memory.
std::optional<Address> take_pool_memory(CUmemPoolHandle_st& pool, size_t size_bytes);
void give_pool_memory(CUmemPoolHandle_st& pool, Address address, size_t size_bytes);

// Returns wholly unused chunks to the device while the pool holds more than `keep_bytes`.
void trim_pool(CUmemPoolHandle_st& pool, size_t keep_bytes);
// What a synchronisation does: trims each pool of the device, or of the host, to its release threshold, and ends destroyed ones.
void trim_pools_to_threshold(int device);

// -1: of the host.
CUmemoryPool make_pool(int device);
// Neither destroyed nor unknown?
bool usable_pool(CUmemoryPool pool);

}  // namespace sim

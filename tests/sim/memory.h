// Who takes device memory and who gives it back? Used under the machine's lock by every file that allocates.
#pragma once

#include "machine.h"

namespace sim {

// Counts the bytes as used if the device has them. What pools and graphs hold unused is not taken from them, as on real ones.
bool reserve_bytes(int device, size_t size_bytes);
inline void return_bytes(int device, size_t size_bytes) { machine().devices[device].used_bytes -= size_bytes; }

// Returns to the device what its graphs hold between launches.
void trim_graph_memory(int device);

// Device memory of at least `size_bytes`, counted. Null for out of memory.
std::optional<Address> take_device_memory(int device, size_t size_bytes);
void give_device_memory(int device, Address address, size_t size_bytes);

// Host memory of whole pages, which no device counts. Null for out of memory.
std::optional<Address> take_host_memory(size_t size_bytes);
void give_host_memory(Address address, size_t size_bytes);

// Address space of a device that holds no memory yet: what a captured allocation gets.
std::optional<Address> take_device_addresses(int device, size_t size_bytes);
void give_device_addresses(int device, Address address, size_t size_bytes);

// Pages for memory that is not the simulator's: of a file from `offset` on, or without a file (-1) fresh ones to copy it to. They go
// with a block of kind kImported, or by unmap_pages.
std::optional<Address> map_pages(int file, size_t offset, size_t size_bytes);
void unmap_pages(Address address, size_t size_bytes);

// False if the process does not have that memory, or must not be read.
bool copy_from_process(int process, Address from, Address to, size_t size_bytes);

void add_block(Address address, Block block);
// The block that `address` points into, end() if there is none.
std::map<Address, Block>::iterator find_block(Address address);
// May cuMemFree and cuMemFreeAsync free it?
bool freeable(const Block& block);
// Is every byte of the range inside one block?
bool covered(Address address, size_t size_bytes);

// Frees a block of whatever kind the way its kind wants.
void release_block(std::map<Address, Block>::iterator block);
// Destroys what dies with a context: blocks, arrays, streams, events, modules.
void release_everything_of(CUcontext context);

}  // namespace sim

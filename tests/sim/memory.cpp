// How is device memory counted, found by address, and freed with its owner?
#include "memory.h"

#include <sys/mman.h>
#include <sys/uio.h>

#include "handles.h"
#include "pool.h"

namespace sim {
namespace {

// Freed blocks of this size hand their host pages back; smaller ones are reused soon and not worth a system call.
constexpr size_t kDiscardBytes = size_t{64} << 20;

void discard(Address address, size_t size_bytes) {
  if (size_bytes >= kDiscardBytes) madvise(reinterpret_cast<void*>(address), size_bytes, MADV_DONTNEED);
}

}  // namespace

bool reserve_bytes(int device, size_t size_bytes) {
  Device& d = machine().devices[device];
  if (d.total_bytes - d.used_bytes < size_bytes) return false;
  d.used_bytes += size_bytes;
  return true;
}

void trim_graph_memory(int device) {
  Device& d = machine().devices[device];
  return_bytes(device, d.graph_reserved_bytes - d.graph_used_bytes);
  d.graph_reserved_bytes = d.graph_used_bytes;
}

std::optional<Address> take_device_addresses(int device, size_t size_bytes) {
  return machine().devices[device].arena.take(round_up(size_bytes, kAlignment));
}

void give_device_addresses(int device, Address address, size_t size_bytes) {
  discard(address, size_bytes);
  machine().devices[device].arena.give(address, round_up(size_bytes, kAlignment));
}

std::optional<Address> take_device_memory(int device, size_t size_bytes) {
  if (size_bytes > machine().devices[device].total_bytes) return std::nullopt;  // before rounding can overflow
  size_t rounded = round_up(size_bytes, kAlignment);
  if (!reserve_bytes(device, rounded)) return std::nullopt;
  std::optional<Address> address = take_device_addresses(device, rounded);
  if (!address) return_bytes(device, rounded);
  return address;
}

void give_device_memory(int device, Address address, size_t size_bytes) {
  return_bytes(device, round_up(size_bytes, kAlignment));
  give_device_addresses(device, address, size_bytes);
}

std::optional<Address> take_host_memory(size_t size_bytes) {
  if (size_bytes > kHostArenaBytes) return std::nullopt;  // before rounding can overflow
  return machine().host_arena.take(round_up(size_bytes, kPageBytes));
}

void give_host_memory(Address address, size_t size_bytes) {
  discard(address, size_bytes);
  machine().host_arena.give(address, round_up(size_bytes, kPageBytes));
}

std::optional<Address> map_pages(int file, size_t offset, size_t size_bytes) {
  const size_t into_page = offset % kPageBytes;
  const int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  const auto at = static_cast<off_t>(offset - into_page);
  void* start = mmap(nullptr, round_up(into_page + size_bytes, kPageBytes), PROT_READ | PROT_WRITE, flags, file, at);
  if (start == MAP_FAILED) return std::nullopt;
  return reinterpret_cast<Address>(start) + into_page;
}

void unmap_pages(Address address, size_t size_bytes) {
  const size_t into_page = address % kPageBytes;
  munmap(reinterpret_cast<void*>(address - into_page), round_up(into_page + size_bytes, kPageBytes));
}

bool copy_from_process(int process, Address from, Address to, size_t size_bytes) {
  iovec local = {reinterpret_cast<void*>(to), size_bytes};
  iovec remote = {reinterpret_cast<void*>(from), size_bytes};
  return process_vm_readv(process, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size_bytes);
}

void add_block(Address address, Block block) {
  block.id = machine().next_block_id++;
  machine().blocks.emplace(address, block);
}

std::map<Address, Block>::iterator find_block(Address address) {
  auto& blocks = machine().blocks;
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return blocks.end();
  auto block = std::prev(after);
  return address < block->first + block->second.size_bytes ? block : blocks.end();
}

bool freeable(const Block& block) {
  switch (block.kind) {
    case BlockKind::kHost:
    case BlockKind::kRegistered:
    case BlockKind::kMapped: return false;
    default: return true;
  }
}

bool covered(Address address, size_t size_bytes) {
  auto block = find_block(address);
  return block != machine().blocks.end() && block->first + block->second.size_bytes - address >= size_bytes;
}

void release_block(std::map<Address, Block>::iterator position) {
  auto [address, block] = *position;
  machine().blocks.erase(position);
  switch (block.kind) {
    case BlockKind::kLinear:
      give_device_memory(block.device, address, block.size_bytes);
      break;
    case BlockKind::kManaged:
    case BlockKind::kHost:
      give_host_memory(address, block.size_bytes);
      break;
    case BlockKind::kPool:
      give_pool_memory(*block.pool, address, block.size_bytes);
      break;
    case BlockKind::kGraph:  // the addresses stay the graph's, the memory is kept for its next launch
      machine().devices[block.device].graph_used_bytes -= round_up(block.size_bytes, kAlignment);
      break;
    case BlockKind::kImported:
      if (block.pool != nullptr) block.pool->used_bytes -= round_up(block.size_bytes, kAlignment);
      unmap_pages(address, block.size_bytes);
      break;
    case BlockKind::kRegistered:  // the program's own memory
    case BlockKind::kMapped:      // goes with its mapping
      break;
  }
}

void release_everything_of(CUcontext context) {
  Machine& m = machine();
  for (auto block = m.blocks.begin(); block != m.blocks.end();) {
    auto next = std::next(block);
    if (block->second.owner == context) release_block(block);
    block = next;
  }
  auto belongs = [&](const auto& object) { return object.context == context; };
  m.arrays.for_each([&](const CUarray_st& array) {
    if (belongs(array) && array.address != 0)
      give_device_memory(context->device, array.address, array.size_bytes);
  });
  m.mipmapped_arrays.for_each([&](const CUmipmappedArray_st& array) {
    if (belongs(array) && array.address != 0)
      give_device_memory(context->device, array.address, array.size_bytes);
  });
  m.arrays.remove_if(belongs);
  m.mipmapped_arrays.remove_if(belongs);
  m.external_memories.remove_if(belongs);
  m.graphics_resources.remove_if(belongs);
  m.streams.remove_if(belongs);
  m.events.remove_if(belongs);
  m.modules.remove_if(belongs);
}

}  // namespace sim

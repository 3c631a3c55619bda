// How are free ranges found, split and joined?
#include "range_allocator.h"

#include <iterator>

namespace sim {

void RangeAllocator::insert(Address address, size_t size_bytes) {
  by_address_.emplace(address, size_bytes);
  by_size_.emplace(size_bytes, address);
}

void RangeAllocator::erase(std::map<Address, size_t>::iterator range) {
  by_size_.erase({range->second, range->first});
  by_address_.erase(range);
}

std::optional<Address> RangeAllocator::take(size_t size_bytes) {
  auto best = by_size_.lower_bound({size_bytes, 0});
  if (best == by_size_.end()) return std::nullopt;
  auto [range_bytes, address] = *best;
  erase(by_address_.find(address));
  if (range_bytes > size_bytes) insert(address + size_bytes, range_bytes - size_bytes);
  return address;
}

void RangeAllocator::give(Address address, size_t size_bytes) {
  auto next = by_address_.lower_bound(address);
  if (next != by_address_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == address) {
      address = previous->first;
      size_bytes += previous->second;
      erase(previous);
    }
  }
  if (next != by_address_.end() && address + size_bytes == next->first) {
    size_bytes += next->second;
    erase(next);
  }
  insert(address, size_bytes);
}

bool RangeAllocator::withdraw(Address address, size_t size_bytes) {
  auto after = by_address_.upper_bound(address);
  if (after == by_address_.begin()) return false;
  auto range = std::prev(after);
  auto [start, length] = *range;
  if (start + length < address + size_bytes) return false;
  erase(range);
  if (start < address) insert(start, address - start);
  Address end = address + size_bytes;
  if (end < start + length) insert(end, start + length - end);
  return true;
}

}  // namespace sim

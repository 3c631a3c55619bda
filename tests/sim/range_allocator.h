// Which part of a range of addresses is free? Holds the free ranges only; what is taken is its owner's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace sim {

using Address = unsigned long long;  // the type of CUdeviceptr

// Best fit, lowest address first, so an address given back is soon handed out again, as by the real driver.
// Not thread-safe. All sizes should be multiples of one granularity.
class RangeAllocator {
 public:
  std::optional<Address> take(size_t size_bytes);
  // Makes the range free and joins it with free neighbours. Also how address space is added.
  void give(Address address, size_t size_bytes);
  // Removes the range from the free ones; false if any of it is in use.
  bool withdraw(Address address, size_t size_bytes);

 private:
  void insert(Address address, size_t size_bytes);
  void erase(std::map<Address, size_t>::iterator range);

  std::map<Address, size_t> by_address_;
  std::set<std::pair<size_t, Address>> by_size_;
};

}  // namespace sim

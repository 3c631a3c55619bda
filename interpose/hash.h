// How ids are folded into one 64-bit hash.
#pragma once

#include <cstdint>

namespace vramtrack {

// Mixes `value` into `seed`. Both halves of the 128-bit product are kept, so order matters and every bit reaches every other:
// hash_mix(hash_mix(0, a), b) tells (a, b) from (b, a). Zero is a good first seed.
inline uint64_t hash_mix(uint64_t seed, uint64_t value) {
  const unsigned __int128 product =
      static_cast<unsigned __int128>(seed ^ 0x9e3779b97f4a7c15u) * (value ^ 0xd1b54a32d192ed03u);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace vramtrack

// Allocates and frees at random, for ever. Its one argument is the oracle's file.
#include "check.h"
#include "oracle.h"

#include <random>
#include <utility>
#include <vector>

int main(int, char** argv) {
  Oracle* oracle = open_oracle(argv[1]);
  std::mt19937 random(1);
  std::vector<std::pair<void*, uint64_t>> held;
  for (uint64_t bytes = 0;;) {
    if (held.size() < 3000 && random() % 2) {
      const uint64_t size = 256 * (1 + random() % 64);
      void* block;
      announce(oracle, bytes + size, held.size() + 1);
      CHECK(cudaMalloc(&block, size));
      held.push_back({block, size});
      bytes += size;
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      announce(oracle, bytes - held.back().second, held.size() - 1);
      CHECK(cudaFree(held.back().first));
      bytes -= held.back().second;
      held.pop_back();
    }
    settle(oracle);
  }
}

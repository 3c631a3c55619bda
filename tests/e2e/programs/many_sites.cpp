// Allocates 20000 blocks from 256 different stacks, frees every other one and counts what the runtime says: needs a capture
// of a few MiB.
#include "check.h"

#include <vector>

template <int depth>
__attribute__((noinline)) void* from(int path) {
  void* block = nullptr;
  if constexpr (depth == 0) {
    CHECK(cudaMalloc(&block, 256));
  } else if (path & 1) {
    block = from<depth - 1>(path >> 1);
    asm volatile("");
  } else {
    block = from<depth - 1>(path >> 1);
    asm volatile("nop");
  }
  return block;
}

int main() {
  std::vector<void*> held;
  for (int i = 0; i < 20000; i++) held.push_back(from<8>(i % 256));
  for (size_t i = 0; i < held.size(); i += 2) CHECK(cudaFree(held[i]));
  std::printf("%zu blocks\n", held.size() / 2);
}

// 16 threads, each allocating 2000 blocks of its own size and keeping 3 of them.
#include "check.h"

#include <thread>
#include <vector>

static void work(size_t bytes) {
  void* kept;
  for (int i = 0; i < 1997; i++) {
    void* block;
    CHECK(cudaMalloc(&block, bytes));
    CHECK(cudaFree(block));
  }
  for (int i = 0; i < 3; i++) CHECK(cudaMalloc(&kept, bytes));
}

int main() {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 16; i++) threads.emplace_back(work, 4096 * (i + 1));
  for (std::thread& thread : threads) thread.join();
}

// Holds 5 blocks of 1 MiB and one of 3 MiB, says so, and waits for its stdin to end.
#include "check.h"

int main() {
  void* block;
  for (int i = 0; i < 5; i++) CHECK(cudaMalloc(&block, 1 << 20));
  CHECK(cudaMalloc(&block, 3 << 20));
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {}
}

// `both`: forks before it touches CUDA, then parent and child allocate. `parent`: allocates, forks, and the child only ends.
// `after`: allocates, forks, and the child tries to go on with CUDA, which it may not. Prints the pids.
#include "check.h"

#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

static std::vector<void*> take(int count, size_t bytes) {
  std::vector<void*> blocks(count);
  for (void*& block : blocks) CHECK(cudaMalloc(&block, bytes));
  return blocks;
}

int main(int, char** argv) {
  const char* what = argv[1];
  std::vector<void*> early;
  if (std::strcmp(what, "both")) early = take(3, 1 << 20);
  const pid_t child = fork();
  if (child == 0) {
    if (!std::strcmp(what, "both")) take(7, 1 << 16);
    if (!std::strcmp(what, "after")) {
      void* block;
      for (int i = 0; i < 7; i++) (void)cudaMalloc(&block, 1 << 16);
      for (void* mine : early) (void)cudaFree(mine);
    }
    return 0;
  }
  if (!std::strcmp(what, "both")) take(5, 1 << 18);
  int status;
  waitpid(child, &status, 0);
  if (!std::strcmp(what, "after")) take(5, 1 << 18);
  std::printf("%d %d\n", getpid(), child);
  return status != 0;
}

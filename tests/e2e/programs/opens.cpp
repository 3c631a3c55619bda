// Opens the memory of another process, again and again; "forgets": and does not close it. The exporter is this program as well.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "check.h"

namespace {

constexpr int kBlocks = 40;

int export_blocks(int to, int done) {
  for (int i = 0; i < kBlocks; i++) {
    void* block;
    cudaIpcMemHandle_t handle;
    CHECK(cudaMalloc(&block, 1 << 20));
    CHECK(cudaIpcGetMemHandle(&handle, block));
    if (write(to, &handle, sizeof handle) != sizeof handle) return 1;
  }
  char byte;
  return read(done, &byte, 1) < 0;
}

}  // namespace

int main(int, char** argv) {
  if (!std::strcmp(argv[1], "exports")) return export_blocks(3, 4);
  int blocks[2], done[2];
  if (pipe(blocks) != 0 || pipe(done) != 0) return 1;
  const pid_t exporter = fork();
  if (exporter == 0) {
    dup2(blocks[1], 3);
    dup2(done[0], 4);
    close(done[1]);
    execl("/proc/self/exe", argv[0], "exports", nullptr);
    _exit(1);
  }
  for (int i = 0; i < kBlocks; i++) {
    cudaIpcMemHandle_t handle;
    if (read(blocks[0], &handle, sizeof handle) != sizeof handle) return 1;
    void *first, *second, *scratch;
    CHECK(cudaIpcOpenMemHandle(&first, handle, cudaIpcMemLazyEnablePeerAccess));
    CHECK(cudaIpcOpenMemHandle(&second, handle, cudaIpcMemLazyEnablePeerAccess));  // the same address
    CHECK(cudaIpcCloseMemHandle(second));
    if (std::strcmp(argv[1], "forgets") != 0) CHECK(cudaIpcCloseMemHandle(first));
    CHECK(cudaMalloc(&scratch, 4096));
    CHECK(cudaFree(scratch));
  }
  close(done[1]);
  int status;
  return waitpid(exporter, &status, 0) < 0;
}

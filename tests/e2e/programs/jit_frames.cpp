// Allocates below a frame of generated code, which has no unwind tables, after it has closed every descriptor and opened files of its
// own: prints their numbers, sizes and positions, which are nobody's business but its.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "check.h"

static void allocate() {
  void* block;
  CHECK(cudaMalloc(&block, 4096));
  CHECK(cudaFree(block));
}

static int down(int depth, void (*generated)()) {
  volatile char room[4096];
  room[0] = static_cast<char>(depth);
  if (depth == 0) generated();
  return depth == 0 ? 0 : down(depth - 1, generated) + room[0];
}

// push rbp; mov rbp, rsp; mov rax, FUNCTION; call rax; pop rbp; ret
static void (*generated_caller(void (*function)()))() {
  auto* code = static_cast<uint8_t*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const uint8_t before[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8}, after[] = {0xff, 0xd0, 0x5d, 0xc3};
  std::memcpy(code, before, sizeof before);
  std::memcpy(code + sizeof before, &function, sizeof function);
  std::memcpy(code + sizeof before + sizeof function, after, sizeof after);
  return reinterpret_cast<void (*)()>(code);
}

int main(int, char** argv) {
  void (*generated)() = generated_caller(allocate);
  generated();
  for (int i = 3; i < 1024; i++) close(i);
  int files[3];
  for (int i = 0; i < 3; i++) {
    files[i] = open((argv[1] + std::to_string(i)).c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (write(files[i], "mine", 4) != 4 || lseek(files[i], 0, SEEK_SET) != 0) return 1;
  }
  for (int i = 0; i < 100; i++) down(i, generated);
  for (int file : files) {
    struct stat is;
    fstat(file, &is);
    std::printf("%d: %ld bytes, at %ld\n", file, static_cast<long>(is.st_size), static_cast<long>(lseek(file, 0, SEEK_CUR)));
  }
}

// A page shared with the test that says what the program holds, right at every instant, also when the program is killed.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// `next` is written before the call that makes it true and `now` after it: a kill leaves the truth in one of the two.
struct Oracle {
  std::atomic<uint64_t> now_bytes, now_blocks, next_bytes, next_blocks, operations;
};

inline Oracle* open_oracle(const char* path) {
  const int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Oracle)) != 0) std::perror(path), std::exit(2);
  void* page = mmap(nullptr, sizeof(Oracle), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return static_cast<Oracle*>(page);
}

inline void announce(Oracle* oracle, uint64_t bytes, uint64_t blocks) {
  oracle->next_bytes = bytes;
  oracle->next_blocks = blocks;
}

inline void settle(Oracle* oracle) {
  oracle->now_bytes = oracle->next_bytes.load();
  oracle->now_blocks = oracle->next_blocks.load();
  oracle->operations++;
}

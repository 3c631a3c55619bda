// Memory of our own: from the kernel, never from the program's malloc, and not copied into forked children, which start anew.
#pragma once

#include <cstddef>
#include <sys/mman.h>

namespace vramtrack {

// Zeroed pages, committed as they are touched. Null when there are none.
inline void* map_private(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  madvise(p, bytes, MADV_DONTFORK);
  return p;
}

inline void unmap_private(void* p, size_t bytes) {
  if (p) munmap(p, bytes);
}

}  // namespace vramtrack

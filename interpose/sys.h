// System calls as a guest makes them: no cancellation point, no errno of the program's touched beyond the caller's saving,
// no allocation. (glibc's own open, close and write are cancellation points; `syscall` is not.)
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vramtrack::sys {

inline int open(const char* path, int flags, int mode = 0) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode));
}
inline void close(int fd) { syscall(SYS_close, fd); }
inline int fallocate(int fd, uint64_t offset, uint64_t size) {
  return static_cast<int>(syscall(SYS_fallocate, fd, 0, offset, size));
}
inline int64_t read(int fd, void* to, size_t size) { return syscall(SYS_read, fd, to, size); }
inline int64_t write(int fd, const void* from, size_t size) { return syscall(SYS_write, fd, from, size); }
inline int64_t pwrite(int fd, const void* from, size_t size, uint64_t offset) {
  return syscall(SYS_pwrite64, fd, from, size, offset);
}
inline int unlink(const char* path) { return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0)); }
inline int64_t readlink(const char* path, char* to, size_t size) {
  return syscall(SYS_readlinkat, AT_FDCWD, path, to, size);
}

// What we cannot keep from reaching a cancellation point (the loader, an unwinder) must not act on the program's pending cancel.
struct NoCancellation {
  int before;
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before); }
  ~NoCancellation() { pthread_setcancelstate(before, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;
};

// Closes at the end of the scope.
struct Fd {
  int fd;
  explicit Fd(int f) : fd(f) {}
  ~Fd() {
    if (fd >= 0) sys::close(fd);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  explicit operator bool() const { return fd >= 0; }
};

}  // namespace vramtrack::sys

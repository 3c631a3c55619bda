// Finds the calling thread's stack without pthread_getattr_np.
#include "interpose/thread_stack.h"

#include <pthread.h>

#include "interpose/sys.h"

// The first address above the main thread's frames, set by the dynamic linker. Weak, lest the linker be NEEDED for it.
extern "C" [[gnu::weak]] void* __libc_stack_end;

namespace vramtrack {
namespace {

// The main stack grows down on demand and nothing is mapped within this distance below its end: the kernel keeps a gap of at
// least 128 MiB between the stack and the mappings below it.
constexpr uintptr_t kMainStackReach = 64u << 20;

// Reads the lines of /proc/self/maps through a small buffer of its own.
class MapsReader {
 public:
  MapsReader() : fd_(sys::open("/proc/self/maps", O_RDONLY)) {}
  ~MapsReader() {
    if (fd_ >= 0) sys::close(fd_);
  }
  MapsReader(const MapsReader&) = delete;
  MapsReader& operator=(const MapsReader&) = delete;

  // The next "begin-end perms ..." line. False at the end.
  bool next(uintptr_t& begin, uintptr_t& end, bool& readable) {
    begin = hexadecimal();
    end = hexadecimal();
    readable = byte() == 'r';
    int c;
    do c = byte();
    while (c != '\n' && c >= 0);
    return c == '\n';
  }

 private:
  // The number up to the next character that is no digit of it, which is taken too.
  uintptr_t hexadecimal() {
    uintptr_t value = 0;
    for (;;) {
      const int c = byte();
      if (c >= '0' && c <= '9') {
        value = value * 16 + static_cast<uintptr_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        value = value * 16 + static_cast<uintptr_t>(c - 'a' + 10);
      } else {
        return value;
      }
    }
  }

  int byte() {
    if (at_ == size_) {
      at_ = 0;
      size_ = fd_ >= 0 ? sys::read(fd_, buffer_, sizeof buffer_) : 0;
      if (size_ <= 0) {
        size_ = 0;
        return -1;
      }
    }
    return static_cast<unsigned char>(buffer_[at_++]);
  }

  int fd_;
  ssize_t at_ = 0, size_ = 0;
  char buffer_[4096];
};

}  // namespace

StackRange find_thread_stack() {
  if (syscall(SYS_gettid) == getpid()) {
    if (&__libc_stack_end == nullptr) return {};
    const uintptr_t main_end = reinterpret_cast<uintptr_t>(__libc_stack_end);
    // After fork in another thread that thread is the child's main one, but runs on its old stack: this range does not contain
    // its frames, and they are unwound every time.
    return {main_end - kMainStackReach, main_end};
  }
  // glibc lays a thread's descriptor at the top of its stack's block, and a guard page below the block.
  const uintptr_t descriptor = static_cast<uintptr_t>(pthread_self());
  MapsReader maps;
  uintptr_t begin, end;
  bool readable;
  while (maps.next(begin, end, readable)) {
    if (descriptor < begin || descriptor >= end) continue;
    return readable ? StackRange{begin, descriptor} : StackRange{};
  }
  return {};
}

}  // namespace vramtrack

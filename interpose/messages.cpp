// What do we tell while the program runs? See messages.h.
#include "interpose/messages.h"

#include <cstdio>
#include <poll.h>
#include <sys/stat.h>

#include "interpose/settings.h"
#include "interpose/sys.h"

namespace vramtrack {
namespace {

constexpr size_t kLongestLine = 4600;  // a path and a few words

// Lines of the manifest: the path of a capture, or "!" and a message.
void append_to_manifest(const char* line, size_t size) {
  sys::Fd fd(sys::open(settings().manifest, O_WRONLY | O_APPEND | O_NOFOLLOW));
  if (fd) sys::write(fd.fd, line, size);
}

bool is_the_stderr_of_the_start() {
  struct stat st;
  return fstat(2, &st) == 0 && st.st_dev == settings().stderr_device && st.st_ino == settings().stderr_inode;
}

// The program's stderr may be closed, a full pipe, or by now another file: one write, only if that cannot block, and without a
// SIGPIPE.
void write_to_stderr(const char* line, size_t size) {
  pollfd can_write = {2, POLLOUT, 0};
  const timespec at_once = {};  // poll itself is a cancellation point
  if (!is_the_stderr_of_the_start()) return;
  if (syscall(SYS_ppoll, &can_write, 1, &at_once, nullptr, 0) == 1 && can_write.revents == POLLOUT) sys::write(2, line, size);
}

bool under_run() { return *settings().manifest != 0; }

}  // namespace

// The buffers are static because a thread's stack may be small; recordings start one at a time, and stop after that.
void tell_capture(const char* path) {
  static char line[kLongestLine];
  if (!under_run()) return;
  append_to_manifest(line, static_cast<size_t>(snprintf(line, sizeof line, "%s\n", path)));
}

void tell_unrecorded(const char* what, const char* path, const char* why) {
  static char line[kLongestLine];
  const char* format = under_run() ? "!%s%s%s: %s; the program went on unrecorded\n"
                                   : "vramtrack: %s%s%s: %s; the program goes on unrecorded\n";
  const auto length = static_cast<size_t>(snprintf(line, sizeof line, format, what, *path ? " " : "", path, why));
  const size_t size = length < sizeof line ? length : sizeof line - 1;
  under_run() ? append_to_manifest(line, size) : write_to_stderr(line, size);
}

}  // namespace vramtrack

// What does the environment ask of us? See settings.h.
#include "interpose/settings.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/native_stack.h"
#include "interpose/private_memory.h"
#include "interpose/sys.h"

namespace vramtrack {

constinit std::atomic<bool> settings_read{false};
Settings settings_values;

namespace {

constexpr uint32_t kDefaultNativeDepth = 40;

char output_copy[4096], manifest_copy[4096];
std::atomic<pid_t> reader;  // the process a thread of which is reading; another's left that to us when it forked

constexpr size_t kMaxEnvironment = 2 << 20;
char* early_environment;  // NUL-separated, ended by an empty one; null while it is not needed

// From a program's .preinit_array we may be called before the C library has its environment; if somebody loads a library there, it
// never gets one.
void read_early_environment() {
  char* text = static_cast<char*>(map_private(kMaxEnvironment));
  if (!text) return;
  const sys::Fd file(sys::open("/proc/self/environ", O_RDONLY));
  for (size_t size = 0; file && size < kMaxEnvironment - 2;) {
    const int64_t n = sys::read(file.fd, text + size, kMaxEnvironment - 2 - size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    size += static_cast<size_t>(n);
  }
  early_environment = text;
}

const char* variable(const char* name) {
  if (environ) return getenv(name);
  if (!early_environment) read_early_environment();
  const size_t length = strlen(name);
  for (const char* at = early_environment; at && *at; at += strlen(at) + 1)
    if (!strncmp(at, name, length) && at[length] == '=') return at + length + 1;
  return nullptr;
}

bool is_on(const char* name) {
  const char* v = variable(name);
  return v && *v && strcmp(v, "0") != 0;
}

// The program may change or free its environment; we keep what was there.
const char* copy_of(const char* name, const char* fallback, char (&to)[4096]) {
  const char* v = variable(name);
  if (!v || !*v || strlen(v) >= sizeof to) v = fallback;
  return strcpy(to, v);
}

uint64_t number(const char* name, int base, uint64_t fallback) {
  const char* v = variable(name);
  return v && *v ? strtoull(v, nullptr, base) : fallback;
}

void read_environment() {
  early_environment = nullptr;  // a parent's, whose pages a child does not have
  settings_values.secure = getauxval(AT_SECURE) != 0;
  struct stat st;
  if (fstat(2, &st) == 0) {
    settings_values.stderr_device = st.st_dev;
    settings_values.stderr_inode = st.st_ino;
  }
  settings_values.output = copy_of("VRAMTRACK_OUTPUT", "%n.%p.vtrk", output_copy);
  settings_values.manifest = copy_of("VRAMTRACK_MANIFEST", "", manifest_copy);
  settings_values.run_id = number("VRAMTRACK_RUN_ID", 16, 0);
  settings_values.cpu = is_on("VRAMTRACK_CPU");
  const char* stacks = variable("VRAMTRACK_STACKS");
  if (!stacks) stacks = "both";
  settings_values.python_stacks = !strcmp(stacks, "both") || !strcmp(stacks, "python");
  settings_values.native_stacks = !strcmp(stacks, "both") || !strcmp(stacks, "native");
  const uint64_t depth = number("VRAMTRACK_NATIVE_DEPTH", 10, kDefaultNativeDepth);
  settings_values.native_depth = static_cast<uint32_t>(depth < 1 ? 1 : depth > kMaxNativeDepth ? kMaxNativeDepth : depth);
  settings_values.only_pid = static_cast<pid_t>(number("VRAMTRACK_ONLY_PID", 10, 0));
  unmap_private(early_environment, kMaxEnvironment);
  early_environment = nullptr;
}

}  // namespace

const Settings& read_settings() {
  while (!settings_read.load(std::memory_order_acquire)) {  // pairs with the store below
    pid_t seen = reader.load(std::memory_order_relaxed);
    const pid_t self = getpid();
    if (seen != self && reader.compare_exchange_strong(seen, self)) {
      read_environment();
      settings_read.store(true, std::memory_order_release);
    } else {
      sched_yield();
    }
  }
  return settings_values;
}

}  // namespace vramtrack

// Who is this process, and what is its capture called? See identity.h.
#include "interpose/identity.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>
#include <unistd.h>

#include "interpose/clock.h"
#include "interpose/settings.h"
#include "interpose/sys.h"

namespace vramtrack {
namespace {

// The only variables a capture carries: which devices the process sees, which rank it is, how its allocators are set up.
constexpr const char* kVariables[] = {
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_MODULE_LOADING", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING", "XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_ALLOCATOR", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_ALLOCATOR", "RANK", "LOCAL_RANK", "WORLD_SIZE",
    "SLURM_PROCID", "SLURM_LOCALID", "SLURM_JOB_ID", "OMPI_COMM_WORLD_RANK",
};
constexpr const char* kRankVariables[] = {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"};

int rank_of_process() {
  for (const char* name : kRankVariables)
    if (const char* v = getenv(name); v && *v) return atoi(v);
  return -1;
}

// Up to `size` bytes of a file; its length.
size_t slurp(const char* path, char* to, size_t size) {
  sys::Fd fd(sys::open(path, O_RDONLY));
  size_t length = 0;
  while (fd && length < size) {
    const int64_t n = sys::read(fd.fd, to + length, size - length);
    if (n <= 0) break;
    length += n;
  }
  return length;
}

// Field 22 of /proc/self/stat; the second field may hold anything, so count from the last ')'.
uint64_t start_ticks() {
  char text[1024];
  const size_t n = slurp("/proc/self/stat", text, sizeof text - 1);
  text[n] = 0;
  const char* at = strrchr(text, ')');
  for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
  return at ? strtoull(at, nullptr, 10) : 0;
}

uint32_t environment_list(Interner& interner) {
  static char list[4096];
  size_t used = 0;
  for (const char* name : kVariables) {
    const char* value = getenv(name);
    if (!value || used + strlen(name) + strlen(value) + 2 > sizeof list) continue;
    used += snprintf(list + used, sizeof list - used, "%s=%s", name, value) + 1;
  }
  return intern_string(interner, {list, used ? used - 1 : 0});
}

std::string_view host_name(char (&buffer)[256]) {
  if (gethostname(buffer, sizeof buffer) != 0) return {};
  buffer[sizeof buffer - 1] = 0;
  return buffer;
}

// The program as `ps` shows it: for an interpreter its script says more, but the executable is what can be found again.
std::string_view program_name(char (&buffer)[4096]) {
  const int64_t n = sys::readlink("/proc/self/exe", buffer, sizeof buffer);
  const std::string_view path(buffer, n > 0 ? n : 0);
  const size_t slash = path.rfind('/');
  const std::string_view name = slash == path.npos ? path : std::string_view(path.data() + slash + 1, path.size() - slash - 1);
  return name.empty() ? "program" : name;
}

// A bounded text being put together.
struct Text {
  char* to;
  size_t size, used = 0;
  bool fits = true;

  void add(std::string_view part) {
    if (used + part.size() >= size) {
      fits = false;
      return;
    }
    memcpy(to + used, part.data(), part.size());
    used += part.size();
    to[used] = 0;
  }
  void add_number(long n) {
    char digits[24];
    add({digits, static_cast<size_t>(snprintf(digits, sizeof digits, "%ld", n))});
  }
};

void expand(const char* pattern, Text& text) {
  for (const char* p = pattern; *p; p++) {
    if (*p != '%' || !p[1]) {
      text.add({p, 1});
      continue;
    }
    static char buffer[4096], host[256];  // one recording starts at a time, perhaps on a small stack
    switch (*++p) {
      case 'n': text.add(program_name(buffer)); break;
      case 'p': text.add_number(getpid()); break;
      case 'r': text.add_number(rank_of_process() < 0 ? 0 : rank_of_process()); break;
      case 'h': text.add(host_name(host)); break;
      default: text.add({p, 1});  // "%%" and anything else stands for itself
    }
  }
}

// Of a process started `ticks` after boot; 0 if that is not known.
uint32_t age_ms(uint64_t ticks) {
  const uint64_t now_ms = nanoseconds(CLOCK_BOOTTIME) / 1000000;
  const uint64_t start_ms = ticks * 1000 / static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  return ticks && now_ms > start_ms ? static_cast<uint32_t>(now_ms - start_ms) : 0;
}

}  // namespace

void describe_process(format::Header& header, Interner& interner) {
  header.pid = getpid();
  header.ppid = getppid();
  header.rank = rank_of_process();
  header.run_id = settings().run_id;
  header.process_start_ticks = start_ticks();
  header.began_ms = age_ms(header.process_start_ticks);
  header.start_realtime_ns = nanoseconds(CLOCK_REALTIME);
  header.start_monotonic_ns = nanoseconds(CLOCK_MONOTONIC);
  static char text[32 << 10];  // one recording is made at a time
  const size_t argv_size = slurp("/proc/self/cmdline", text, sizeof text);
  header.argv = intern_string(interner, {text, argv_size ? argv_size - 1 : 0});
  const int64_t exe_size = sys::readlink("/proc/self/exe", text, sizeof text);
  header.exe = intern_string(interner, {text, static_cast<size_t>(exe_size > 0 ? exe_size : 0)});
  char host[256];
  header.host = intern_string(interner, host_name(host));
  header.environment = environment_list(interner);
}

bool capture_path(const char* pattern, int attempt, char* to, size_t size) {
  Text text{to, size};
  if (pattern[0] != '/') {
    const long n = syscall(SYS_getcwd, to, size);  // the length, its NUL included
    if (n <= 1) return false;
    text.used = n - 1;
    text.add("/");
  }
  expand(pattern, text);
  if (attempt > 0) {  // before the suffix: NAME.PID.2.vtrk
    constexpr std::string_view kSuffix = ".vtrk";
    const std::string_view done(to, text.used);
    const bool suffixed = done.ends_with(kSuffix);
    if (suffixed) text.used -= kSuffix.size();
    text.add(".");
    text.add_number(attempt + 1);
    if (suffixed) text.add(kSuffix);
  }
  return text.fits;
}

}  // namespace vramtrack

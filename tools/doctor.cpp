// vramtrack doctor: what would be seen of programs on this machine, what not, and why.
#include <dlfcn.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "report/words.h"
#include "tools/commands.h"
#include "tools/gpu_usage.h"
#include "tools/preload.h"
#include "tools/staging.h"

namespace vramtrack {
namespace {

enum class State { kGood, kLess, kBad };  // kLess: something is not seen; kBad: nothing can be recorded

struct Check {
  State state;
  std::string what, answer;
};

Check library() {
  const std::string path = find_library();
  const std::string what = "the library to preload";
  if (path.empty()) return {State::kBad, what, "libvramtrack.so is missing: it is looked for in ../lib beside this command"};
  if (path.find_first_of(": ") != std::string::npos) {
    return {State::kBad, what, path + ": LD_PRELOAD allows no space and no colon in a path"};
  }
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) return {State::kBad, what, fmt::format("cannot be loaded: {}", dlerror())};
  return {State::kGood, what, path};
}

Check unwinder() {
  const std::string what = "native stacks";
  const std::string beside = std::filesystem::path(find_library()).parent_path() / "libunwind.so.8";
  for (const std::string& path : {beside, std::string("libunwind.so.8")}) {
    if (void* found = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      dlclose(found);
      return {State::kGood, what, "by libunwind, " + path};
    }
  }
  return {State::kLess, what, "libunwind.so.8 is missing: they are taken the slow way, by the C++ runtime's unwinder"};
}

// The few functions of the driver that say what there is; see cuda.h.
Check driver() {
  const std::string what = "the CUDA driver";
  void* cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (cuda == nullptr) return {State::kLess, what, "libcuda.so.1 is missing: only PyTorch's CPU tensors (`run --cpu`) can be seen"};
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(cuda, "cuInit"));
  const auto version_of = reinterpret_cast<int (*)(int*)>(dlsym(cuda, "cuDriverGetVersion"));
  const auto count_of = reinterpret_cast<int (*)(int*)>(dlsym(cuda, "cuDeviceGetCount"));
  const auto name_of = reinterpret_cast<int (*)(char*, int, int)>(dlsym(cuda, "cuDeviceGetName"));
  int version = 0, count = 0;
  if (!init || !version_of || !count_of || !name_of) return {State::kBad, what, "libcuda.so.1 lacks what every driver has"};
  if (const int error = init(0)) {
    return {State::kLess, what, fmt::format("cuInit fails with error {}: there is no device that works", error)};
  }
  version_of(&version);
  count_of(&count);
  std::array<char, 128> name = {};
  if (count > 0) name_of(name.data(), static_cast<int>(name.size()), 0);
  const std::string devices = count_text(static_cast<uint64_t>(count), "device");
  const std::string first = count > 0 ? fmt::format(", the first: {}", name.data()) : "";
  return {State::kGood, what, fmt::format("CUDA {}.{}, {}{}", version / 1000, version % 1000 / 10, devices, first)};
}

Check usage() {
  const GpuUsageMeter meter;
  if (meter) return {State::kGood, "what the driver takes for itself", "measured by NVML while `run` lasts"};
  return {State::kLess, "what the driver takes for itself", "libnvidia-ml.so.1 does not answer: it is not in the ledger"};
}

std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  for (std::array<char, 256> part; std::fgets(part.data(), part.size(), pipe) != nullptr;) text += part.data();
  pclose(pipe);
  return text.substr(0, text.find('\n'));
}

Check python() {
  constexpr int kOldest = 8, kNewest = 14;
  const std::string what = "Python stacks";
  const std::string path = find_program("python3");
  if (path.empty()) return {State::kLess, what, "there is no python3 in PATH to look at"};
  const std::string version = output_of("python3 -c 'import sys; print(\"%d.%d.%d\" % sys.version_info[:3])' 2>/dev/null");
  int major = 0, minor = 0;
  const bool known = std::sscanf(version.c_str(), "%d.%d", &major, &minor) == 2 && major == 3 && minor >= kOldest && minor <= kNewest;
  if (!known) {
    const std::string is = version.empty() ? "of no known version" : "Python " + version;
    return {State::kLess, what, fmt::format("{} is {}: the frames of 3.{} to 3.{} are read", path, is, kOldest, kNewest)};
  }
  return {State::kGood, what, fmt::format("{} is Python {}", path, version)};
}

// Permissions do not tell of read-only and of special filesystems.
bool can_make_file(const std::string& directory) {
  std::string name = directory + "/.vramtrack-doctor-XXXXXX";
  const int file = mkstemp(name.data());
  if (file < 0) return false;
  close(file);
  unlink(name.c_str());
  return true;
}

Check captures() {
  const std::string what = "captures";
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string();
  if (error || !can_make_file(here)) {
    return {State::kLess, what, fmt::format("{} cannot be written to: `run -o DIR` puts them elsewhere", here)};
  }
  struct statvfs disk = {};
  const bool known = statvfs(here.c_str(), &disk) == 0;
  const double free_bytes = known ? static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize) : 0;
  const std::string_view where = is_network_filesystem(here) ? ", a network filesystem: they are written locally and copied there" : "";
  return {State::kGood, what, fmt::format("go to {}{}, {} free", here, where, size_text(free_bytes))};
}

Check program(const std::string& name) {
  const std::string what = name;
  const std::string path = find_program(name);
  if (path.empty()) return {State::kBad, what, "not found"};
  if (access(path.c_str(), F_OK) != 0) return {State::kBad, what, std::strerror(errno)};
  if (!is_executable_file(path)) return {State::kBad, what, "cannot be executed: no program, or not allowed"};
  const Preloadable can = preloadable(path);
  if (!can.why_not.empty()) return {State::kBad, what, "cannot be traced: " + can.why_not};
  return {State::kGood, what, "can be traced"};
}

}  // namespace

int doctor_command(const DoctorOptions& options) {
  std::vector<Check> checks = {library(), unwinder(), driver(), usage(), python(), captures()};
  if (!options.program.empty()) checks.push_back(program(options.program));
  bool bad = false;
  for (const Check& check : checks) {
    const char* word = check.state == State::kGood ? "ok" : check.state == State::kLess ? "less" : "NO";
    std::printf("%-5s %s: %s\n", word, check.what.c_str(), check.answer.c_str());
    bad |= check.state == State::kBad;
  }
  std::printf("\n%s\n", bad ? "What is marked NO is to be mended first."
                            : "Programs can be recorded; what is marked `less` is not seen.");
  return bad ? 1 : 0;
}

}  // namespace vramtrack

// Can a program be traced by preloading, and where is the library to preload?
#include "tools/preload.h"

#include <elf.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace vramtrack {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxInterpreters = 5;  // the kernel's own bound on #! lines that lead to #! lines

// "#!/usr/bin/env python3" -> "/usr/bin/env"; "" if the file is no script.
std::string interpreter(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char mark[2] = {};
  if (!file.read(mark, 2) || mark[0] != '#' || mark[1] != '!') return {};
  std::string line;
  std::getline(file, line);
  size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find_first_of(" \t\r", begin) - begin);
}

// The loader forgets LD_PRELOAD when a program gains rights by being executed.
bool gains_rights(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return false;
  bool other_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != geteuid();
  bool other_group = (status.st_mode & S_ISGID) != 0 && status.st_gid != getegid();
  bool capabilities = geteuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  return other_user || other_group || capabilities;
}

#if defined(__x86_64__)
constexpr int kOurMachine = EM_X86_64;
#else
constexpr int kOurMachine = EM_AARCH64;
#endif

bool names_a_loader(std::ifstream& file, const Elf64_Ehdr& header) {
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    file.seekg(static_cast<std::streamoff>(header.e_phoff + static_cast<uint64_t>(i) * header.e_phentsize));
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof(segment))) return false;
    if (segment.p_type == PT_INTERP) return true;
  }
  return false;
}

Preloadable preloadable_object(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header = {};
  bool is_elf = file.read(reinterpret_cast<char*>(&header), sizeof(header)) && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;
  if (!is_elf) return {};  // not readable, or nothing we know: let it run
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kOurMachine) return {"it is of another architecture", true};
  if (!names_a_loader(file, header)) return {"it is statically linked"};
  if (gains_rights(path)) return {"it runs with more rights than its user (set-uid, set-gid or file capabilities)"};
  return {};
}

}  // namespace

std::string find_library() {
  std::error_code error;
  fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : {"../lib/libvramtrack.so", "../lib/vramtrack/libvramtrack.so"}) {
    fs::path library = fs::weakly_canonical(here / place, error);
    if (!error && fs::is_regular_file(library, error)) return library.string();
  }
  return {};
}

bool is_executable_file(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::string find_program(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* path = std::getenv("PATH");
  std::istringstream directories(path ? path : "/bin:/usr/bin");
  for (std::string directory; std::getline(directories, directory, ':');) {
    std::string candidate = (directory.empty() ? "." : directory) + "/" + program;
    if (is_executable_file(candidate)) return candidate;
  }
  return {};
}

Preloadable preloadable(const std::string& path) {
  std::string object = path;
  for (int i = 0; i < kMaxInterpreters; ++i) {
    std::string next = interpreter(object);
    if (next.empty()) break;
    object = next;
  }
  return preloadable_object(object);
}

}  // namespace vramtrack

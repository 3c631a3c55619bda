// A library that we open for ourselves, some of whose calls of the system come to us instead. See own_library.h.
#include "interpose/own_library.h"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vramtrack {
namespace {

#if defined(__x86_64__)
constexpr uint64_t kCall = R_X86_64_JUMP_SLOT, kAddress = R_X86_64_GLOB_DAT;
#else
constexpr uint64_t kCall = R_AARCH64_JUMP_SLOT, kAddress = R_AARCH64_GLOB_DAT;
#endif

// Where an object keeps the addresses of what it imports.
class Imports {
 public:
  explicit Imports(const link_map& object) : bias_(object.l_addr) {
    for (const ElfW(Dyn)* entry = object.l_ld; entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
        case DT_SYMTAB: symbols_ = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr); break;
        case DT_STRTAB: strings_ = reinterpret_cast<const char*>(entry->d_un.d_ptr); break;
        case DT_JMPREL: calls_ = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr); break;
        case DT_PLTRELSZ: calls_size_ = entry->d_un.d_val; break;
        case DT_RELA: others_ = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr); break;
        case DT_RELASZ: others_size_ = entry->d_un.d_val; break;
      }
    }
  }

  // Every use of the function `name`; false if one could not be changed.
  bool replace(const ReplacedCall& replaced) const {
    return replace_among(calls_, calls_size_, replaced) && replace_among(others_, others_size_, replaced);
  }

 private:
  bool replace_among(const ElfW(Rela)* relocations, size_t bytes, const ReplacedCall& replaced) const {
    for (size_t i = 0; i < bytes / sizeof *relocations; ++i) {
      const ElfW(Rela)& at = relocations[i];
      const uint64_t type = ELF64_R_TYPE(at.r_info);
      const bool imports = type == kCall || type == kAddress;
      const char* name = strings_ + symbols_[ELF64_R_SYM(at.r_info)].st_name;
      if (imports && std::string_view(name) == replaced.name && !store(bias_ + at.r_offset, replaced.function)) return false;
    }
    return true;
  }

  // The loader may have made the page read-only. Made writable it stays: nobody knows whether what else lies in it must be.
  static bool store(uintptr_t slot, void* function) {
    const uintptr_t page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), page = slot & ~(page_size - 1);
    if (mprotect(reinterpret_cast<void*>(page), page_size, PROT_READ | PROT_WRITE) != 0) return false;
    memcpy(reinterpret_cast<void*>(slot), &function, sizeof function);
    return true;
  }

  uintptr_t bias_;
  const ElfW(Sym)* symbols_ = nullptr;
  const char* strings_ = nullptr;
  const ElfW(Rela)*calls_ = nullptr, *others_ = nullptr;
  size_t calls_size_ = 0, others_size_ = 0;
};

void* open_beside(const char* file_name) {
  Dl_info self;
  char path[4096];
  if (dladdr(reinterpret_cast<void*>(&open_beside), &self) == 0 || self.dli_fname == nullptr) return nullptr;
  const char* slash = strrchr(self.dli_fname, '/');
  const size_t folder = slash != nullptr ? static_cast<size_t>(slash - self.dli_fname) + 1 : 0, name = strlen(file_name) + 1;
  if (folder == 0 || folder + name > sizeof path) return nullptr;
  memcpy(path, self.dli_fname, folder);
  memcpy(path + folder, file_name, name);
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

bool is_loaded(const char* file_name) {
  void* theirs = dlopen(file_name, RTLD_NOLOAD | RTLD_LAZY);
  if (theirs) dlclose(theirs);
  return theirs != nullptr;
}

}  // namespace

void* open_own_library(const char* file_name, std::span<const ReplacedCall> replaced) {
  void* library = open_beside(file_name);
  if (!library && !is_loaded(file_name)) library = dlopen(file_name, RTLD_NOW | RTLD_LOCAL);
  link_map* object = nullptr;
  if (!library || dlinfo(library, RTLD_DI_LINKMAP, &object) != 0) return nullptr;
  const Imports imports(*object);
  for (const ReplacedCall& call : replaced)
    if (!imports.replace(call)) return nullptr;
  return library;
}

// The kernel copies the set before it looks at what to do with it, and refuses to do what there is not.
bool is_readable(const void* address) {
  constexpr long kNothing = -1;
  const uintptr_t word = reinterpret_cast<uintptr_t>(address) & ~uintptr_t{7};
  return syscall(SYS_rt_sigprocmask, kNothing, word, nullptr, sizeof(uint64_t)) == 0 || errno != EFAULT;
}

}  // namespace vramtrack

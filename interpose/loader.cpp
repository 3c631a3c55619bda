// What does the dynamic loader know? See loader.h.
//
// The real dlsym cannot be asked for with dlvsym, which we replace as well, and every reference by name binds to ourselves,
// versioned or not. So libc's symbol table is read, as the loader would: the list of loaded objects begins with the program,
// the preloaded libraries and libc, none of which ever goes, so walking to libc needs no lock.
#include "interpose/loader.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

extern "C" {
// Set by the static linker: where this library begins and ends.
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));
}

namespace vramtrack {
namespace {

std::string_view base_name(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);  // substr would bring in libstdc++'s exceptions
  return path;
}

// An object's dynamic symbols.
class Symbols {
 public:
  explicit Symbols(const link_map& object) : bias_(object.l_addr) {
    for (const ElfW(Dyn)* entry = object.l_ld; entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
        case DT_SYMTAB: symbols_ = at<ElfW(Sym)>(entry); break;
        case DT_STRTAB: strings_ = at<char>(entry); break;
        case DT_GNU_HASH: hash_ = at<uint32_t>(entry); break;
        case DT_VERSYM: versions_ = at<uint16_t>(entry); break;
      }
    }
  }

  // The function's default version: an old program's versioned reference means the same code, and no other has one.
  void* find(const char* name) const {
    if (!symbols_ || !strings_ || !hash_) return nullptr;
    const uint32_t bucket_count = hash_[0], first_symbol = hash_[1], bloom_words = hash_[2];
    const uint32_t* buckets = hash_ + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t* chain = buckets + bucket_count;
    const uint32_t wanted = gnu_hash(name);
    uint32_t i = buckets[wanted % bucket_count];
    if (i < first_symbol) return nullptr;
    for (;; ++i) {
      const uint32_t hash = chain[i - first_symbol];
      if ((hash | 1) == (wanted | 1) && is(i, name)) return reinterpret_cast<void*>(bias_ + symbols_[i].st_value);
      if (hash & 1) return nullptr;
    }
  }

 private:
  template <typename T>
  const T* at(const ElfW(Dyn)* entry) const {
    // The loader turns these into addresses in place, except where the section is read-only.
    const uintptr_t value = entry->d_un.d_ptr;
    return reinterpret_cast<const T*>(value < bias_ ? value + bias_ : value);
  }

  bool is(uint32_t i, const char* name) const {
    constexpr uint16_t kHidden = 0x8000;  // of a version: not the default one
    const ElfW(Sym)& symbol = symbols_[i];
    return symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
           !(versions_ && versions_[i] & kHidden) && equal(strings_ + symbol.st_name, name);
  }

  // Not strcmp: in a program built with a sanitizer that is the sanitizer's, which may not be ready when it looks up its own.
  static bool equal(const char* a, const char* b) {
    for (; *a && *a == *b; ++a, ++b) {
    }
    return *a == *b;
  }

  static uint32_t gnu_hash(const char* name) {
    uint32_t hash = 5381;
    for (; *name; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
    return hash;
  }

  uintptr_t bias_;
  const ElfW(Sym)* symbols_ = nullptr;
  const char* strings_ = nullptr;
  const uint32_t* hash_ = nullptr;
  const uint16_t* versions_ = nullptr;
};

// libdl: before glibc 2.34.
void* in_libc(const char* name) {
  for (const link_map* object = _r_debug.r_map; object; object = object->l_next) {
    const std::string_view file = base_name(object->l_name);
    if (!file.starts_with("libc.so.") && !file.starts_with("libdl.so.")) continue;
    if (void* function = Symbols(*object).find(name)) return function;
  }
  return nullptr;
}

void* nothing_found(void*, const char*, const char*) { return nullptr; }

// Threads that come here at the same time find the same address. Relaxed: code needs no publishing.
template <typename Function>
Function* found_once(std::atomic<void*>& cache, const char* name) {
  void* function = cache.load(std::memory_order_relaxed);
  if (!function) {
    function = in_libc(name);
    if (!function) function = reinterpret_cast<void*>(&nothing_found);
    cache.store(function, std::memory_order_relaxed);
  }
  return reinterpret_cast<Function*>(function);
}

constinit std::atomic<void*> dlsym_address{nullptr};
constinit std::atomic<void*> dlvsym_address{nullptr};
constinit std::atomic<void*> dlclose_address{nullptr};

void* pinned(const char* path) { return dlopen(path, RTLD_NOLOAD | RTLD_NODELETE | RTLD_LAZY); }

// Null for the main program, which has no path to open it by.
const char* path_of(const void* address) {
  Dl_info info;
  link_map* object = nullptr;
  if (!dladdr1(address, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) || !object) return nullptr;
  return *object->l_name ? object->l_name : nullptr;
}

struct Search {
  std::string_view prefix;
  char path[4096];
};

int match(dl_phdr_info* object, size_t, void* argument) {
  auto& search = *static_cast<Search*>(argument);
  if (!base_name(object->dlpi_name).starts_with(search.prefix)) return 0;
  const size_t length = strlen(object->dlpi_name);
  if (length >= sizeof search.path) return 0;
  memcpy(search.path, object->dlpi_name, length + 1);  // the object may go as soon as we return
  return 1;
}

}  // namespace

Dlsym* real_dlsym() { return found_once<Dlsym>(dlsym_address, "dlsym"); }
Dlclose* real_dlclose() { return found_once<Dlclose>(dlclose_address, "dlclose"); }
Dlvsym* real_dlvsym() { return found_once<Dlvsym>(dlvsym_address, "dlvsym"); }

void* next_after_us(const char* name) {
  void* next = real_dlsym()(RTLD_NEXT, name);
  __asm__("" : "+r"(next));  // no tail call: RTLD_NEXT goes by the return address, which must be in here
  return next;
}

bool in_this_library(const void* address) { return address >= __ehdr_start && address < _end; }

void* loaded_object(std::string_view name_prefix) {
  Search search{name_prefix, {}};
  return dl_iterate_phdr(match, &search) ? pinned(search.path) : nullptr;
}

void* found_from(const void* address, const char* name) {
  const char* path = path_of(address);
  void* object = path ? dlopen(path, RTLD_NOLOAD | RTLD_LAZY) : nullptr;
  if (!object) return nullptr;
  void* found = real_dlsym()(object, name);
  real_dlclose()(object);
  return found;
}

void keep_loaded(const void* address) {
  if (const char* path = path_of(address)) pinned(path);
}

bool in_same_object(const void* a, const void* b) {
  Dl_info of_a, of_b;
  return dladdr(a, &of_a) && dladdr(b, &of_b) && of_a.dli_fbase == of_b.dli_fbase;
}

std::string_view object_name(const void* address) {
  Dl_info info;
  return dladdr(address, &info) && info.dli_fname ? base_name(info.dli_fname) : std::string_view();
}

}  // namespace vramtrack

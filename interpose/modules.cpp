// Which object file does an address lie in? See modules.h.
#include "interpose/modules.h"

#include <cstddef>
#include <cstring>
#include <link.h>
#include <string_view>

#include "interpose/interner_tables.h"
#include "interpose/private_memory.h"
#include "interpose/sys.h"

namespace vramtrack {
namespace {

using format::Module;

struct Walk {
  Modules& modules;
  Interner& interner;
  CaptureFile& file;
  bool changed = false;
};

void find_range(const dl_phdr_info& info, Module& module) {
  module.load_bias = info.dlpi_addr;
  module.begin = ~0ull;
  for (int i = 0; i < info.dlpi_phnum; i++) {
    const ElfW(Phdr)& ph = info.dlpi_phdr[i];
    if (ph.p_type != PT_LOAD) continue;
    const uint64_t begin = info.dlpi_addr + ph.p_vaddr, end = begin + ph.p_memsz;
    if (begin < module.begin) module.begin = begin;
    if (end > module.end) module.end = end;
  }
}

void read_build_id_note(const char* note, size_t size, size_t align, Module& module) {
  const auto padded = [align](size_t n) { return (n + align - 1) & ~(align - 1); };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) head;
    memcpy(&head, note, sizeof head);
    const size_t name = padded(head.n_namesz), total = sizeof head + name + padded(head.n_descsz);
    if (total > size) return;
    const char* desc = note + sizeof head + name;
    if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && !memcmp(note + sizeof head, "GNU", 4) &&
        head.n_descsz <= sizeof module.build_id) {
      module.build_id_size = head.n_descsz;
      memcpy(module.build_id, desc, head.n_descsz);
      return;
    }
    note += total;
    size -= total;
  }
}

void find_build_id(const dl_phdr_info& info, Module& module) {
  for (int i = 0; i < info.dlpi_phnum && !module.build_id_size; i++) {
    const ElfW(Phdr)& ph = info.dlpi_phdr[i];
    if (ph.p_type != PT_NOTE) continue;
    read_build_id_note(reinterpret_cast<const char*>(info.dlpi_addr + ph.p_vaddr), ph.p_memsz, ph.p_align == 8 ? 8 : 4, module);
  }
}

// The loader names the program itself "", and others as they were asked for, which may be relative to where the program was.
std::string_view path_of(const dl_phdr_info& info, bool first, char (&buffer)[4096]) {
  if (first) {
    const int64_t n = sys::readlink("/proc/self/exe", buffer, sizeof buffer);
    return n > 0 ? std::string_view(buffer, n) : std::string_view();
  }
  const char* name = info.dlpi_name ? info.dlpi_name : "";
  if (!strchr(name, '/')) return {};  // the vDSO
  if (name[0] == '/') return name;
  const long n = syscall(SYS_getcwd, buffer, sizeof buffer);  // the length, its NUL included
  if (n <= 0 || n + strlen(name) >= sizeof buffer) return name;
  buffer[n - 1] = '/';
  strcpy(buffer + n, name);
  return buffer;
}

Modules::Loaded* loaded_at(Modules& modules, uintptr_t address) {
  for (uint32_t i = 0; i < modules.count; i++) {
    Modules::Loaded& m = modules.loaded[i];
    if (address >= m.begin && address < m.end) return &m;
  }
  return nullptr;
}

void mark_unloaded(Walk& walk, Modules::Loaded& gone) {
  record<Module>(walk.file, format::kModules, gone.record).unloaded = 1;
  walk.changed = true;
}

bool is_same_object(const Module& a, const Module& b) {
  return a.path == b.path && a.build_id_size && a.build_id_size == b.build_id_size && !memcmp(a.build_id, b.build_id, sizeof a.build_id);
}

// A plugin that is loaded again is the one that was there before, wherever it lies now.
uint32_t revived(const CaptureFile& file, const Module& module) {
  const uint64_t count = file.header->tables[format::kModules].count.load(std::memory_order_relaxed);
  for (uint32_t id = 1; id < count; id++) {
    Module& before = record<Module>(file, format::kModules, id);
    if (!before.unloaded || !is_same_object(before, module)) continue;
    before.unloaded = 0;
    return id;
  }
  return 0;
}

int visit(dl_phdr_info* info, size_t, void* data) {
  Walk& walk = *static_cast<Walk*>(data);
  Modules& modules = walk.modules;
  const bool first = modules.count == 0;  // the program itself comes first

  Module module = {};
  find_range(*info, module);
  find_build_id(*info, module);
  if (Modules::Loaded* known = loaded_at(modules, module.begin)) {
    const Module& before = record<Module>(walk.file, format::kModules, known->record);
    if (before.end == module.end && before.build_id_size == module.build_id_size &&
        !memcmp(before.build_id, module.build_id, sizeof module.build_id)) {
      known->seen = true;
      return 0;
    }
    mark_unloaded(walk, *known);  // another object lies there now
    *known = modules.loaded[--modules.count];
  }
  if (modules.count == Modules::kMax) return 0;
  static char buffer[4096];  // the interner's lock is held, and the stack may be small
  module.path = intern_string_held(walk.interner, path_of(*info, first, buffer));
  uint32_t id = revived(walk.file, module);
  if (!id) id = append(walk.file, format::kModules, &module);
  if (id) {
    const uint64_t moved = module.load_bias - record<Module>(walk.file, format::kModules, id).load_bias;
    modules.loaded[modules.count++] = {module.begin, module.end, moved, id, true};
  }
  return 0;
}

int read_counters(dl_phdr_info* info, size_t size, void* data) {
  auto* counters = static_cast<uint64_t*>(data);
  if (size >= offsetof(dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
    counters[0] = info->dlpi_adds;
    counters[1] = info->dlpi_subs;
  }
  return 1;
}

void drop_unseen(Walk& walk) {
  Modules& modules = walk.modules;
  for (uint32_t i = 0; i < modules.count;) {
    if (modules.loaded[i].seen) {
      i++;
      continue;
    }
    mark_unloaded(walk, modules.loaded[i]);
    modules.loaded[i] = modules.loaded[--modules.count];
  }
}

}  // namespace

void refresh_modules(Modules& modules, Interner& interner, CaptureFile& file) {
  if (!modules.loaded) modules.loaded = static_cast<Modules::Loaded*>(map_private(Modules::kMax * sizeof(Modules::Loaded)));
  if (!modules.loaded) return;
  uint64_t counters[2] = {};
  dl_iterate_phdr(read_counters, counters);
  if (modules.count && counters[0] == modules.adds && counters[1] == modules.subs) return;

  Walk walk{modules, interner, file};
  for (uint32_t i = 0; i < modules.count; i++) modules.loaded[i].seen = false;
  dl_iterate_phdr(visit, &walk);
  drop_unseen(walk);
  modules.adds = counters[0];
  modules.subs = counters[1];
  if (walk.changed) modules.generation.fetch_add(1, std::memory_order_release);
}

CodePlace place_of(Modules& modules, Interner& interner, CaptureFile& file, uintptr_t address) {
  refresh_modules(modules, interner, file);
  const Modules::Loaded* found = loaded_at(modules, address);
  return found ? CodePlace{found->record, address - found->moved} : CodePlace{0, address};
}

}  // namespace vramtrack

// Finds the interpreter of this process: its functions, its version, its place in memory.
#include "interpose/python_frames.h"
#include "interpose/python_offsets.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>

namespace vramtrack {
namespace {

// Symbols of the program, or of the one module that is called libpython...: an embedding program or an extension may have
// loaded it RTLD_LOCAL, out of reach of RTLD_DEFAULT. That reference is never given back: our pointers lead into the module.
struct PythonSymbols {
  void* module = RTLD_DEFAULT;

  void* find(const char* name) const { return dlsym(module, name); }
};

struct ModulePath {
  char text[4096];
};

int find_libpython(dl_phdr_info* info, size_t, void* result) {
  const char* path = info->dlpi_name;
  if (path == nullptr) return 0;
  const char* slash = strrchr(path, '/');
  const char* file = slash != nullptr ? slash + 1 : path;
  // libpython3.so only forwards to libpython3.X.so.
  if (strncmp(file, "libpython3.", 11) != 0 || file[11] < '0' || file[11] > '9') return 0;
  const size_t size = strlen(path) + 1;
  if (size > sizeof(ModulePath::text)) return 0;
  memcpy(static_cast<ModulePath*>(result)->text, path, size);
  return 1;
}

bool open_python(PythonSymbols& symbols) {
  if (symbols.find("PyGILState_GetThisThreadState") != nullptr) return true;
  ModulePath path;
  if (dl_iterate_phdr(find_libpython, &path) == 0) return false;
  symbols.module = dlopen(path.text, RTLD_LAZY | RTLD_NOLOAD);
  return symbols.module != nullptr && symbols.find("PyGILState_GetThisThreadState") != nullptr;
}

uint32_t read_number(const char*& text) {
  uint32_t value = 0;
  while (*text >= '0' && *text <= '9') value = value * 10 + static_cast<uint32_t>(*text++ - '0');
  return value;
}

// PY_VERSION_HEX of "3.13.0rc2+ (main, ...".
uint32_t parse_version(const char* text) {
  const uint32_t major = read_number(text);
  if (*text++ != '.') return 0;
  const uint32_t minor = read_number(text);
  const uint32_t micro = *text == '.' ? read_number(++text) : 0;
  uint32_t level = 0xf, serial = 0;
  if (*text == 'a' || *text == 'b' || *text == 'r') {
    level = *text == 'a' ? 0xa : *text == 'b' ? 0xb : 0xc;
    text += *text == 'r' ? 2 : 1;
    serial = read_number(text);
  }
  return major << 24 | minor << 16 | micro << 8 | level << 4 | serial;
}

struct CodeRange {
  uintptr_t address;  // looked for
  uintptr_t begin, end;
};

int find_code_range(dl_phdr_info* info, size_t, void* result) {
  CodeRange& range = *static_cast<CodeRange*>(result);
  bool holds_address = false;
  uintptr_t begin = UINTPTR_MAX, end = 0;
  for (uint32_t i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    const uintptr_t from = info->dlpi_addr + header.p_vaddr, to = from + header.p_memsz;
    holds_address |= range.address >= from && range.address < to;
    if (from < begin) begin = from;
    if (to > end) end = to;
  }
  if (!holds_address) return 0;
  range.begin = begin;
  range.end = end;
  return 1;
}

uint32_t index_of(const PythonLayout& layout) {
  uint32_t index = 0;
  while (index < kPythonLayoutCount && !(kPythonLayouts[index] == layout)) ++index;
  return index;
}

}  // namespace

bool find_python(PythonInterpreter& python) {
  PythonSymbols symbols;
  if (!open_python(symbols)) return false;
  const auto get_version = reinterpret_cast<const char* (*)()>(symbols.find("Py_GetVersion"));
  void* is_finalizing = symbols.find("Py_IsFinalizing");
  if (is_finalizing == nullptr) is_finalizing = symbols.find("_Py_IsFinalizing");
  if (get_version == nullptr) return false;

  python = {};
  python.this_thread_state = reinterpret_cast<void* (*)()>(symbols.find("PyGILState_GetThisThreadState"));
  python.is_finalizing = reinterpret_cast<int (*)()>(is_finalizing);
  python.code_type = reinterpret_cast<uintptr_t>(symbols.find("PyCode_Type"));
  const char* version = get_version();
  python.version_hex = parse_version(version);
  python.free_threaded = strstr(version, "free-threading") != nullptr;

  CodeRange range = {reinterpret_cast<uintptr_t>(get_version), 0, 0};
  dl_iterate_phdr(find_code_range, &range);
  python.code_begin = range.begin;
  python.code_end = range.end;

  const bool readable = is_finalizing != nullptr && python.code_type != 0 &&
                        find_python_layout(python.version_hex, python.free_threaded, python.layout) &&
                        adopt_published_offsets(symbols.find("_PyRuntime"), python.version_hex, python.free_threaded,
                                                python.layout);
  python.layout_index = index_of(python.layout);
  python.state = readable ? format::PythonState::kReading : format::PythonState::kUnsupportedVersion;
  return true;
}

}  // namespace vramtrack

// Which wrapper stands for a function that the program looks up? See lookup.h.
//
// lookup_ARCH.S exports dlsym and dlvsym. They ask dlsym_target() or dlvsym_target() where to go and jump there with the
// program's own registers and return address: to libc for all but our own names, so that RTLD_NEXT and RTLD_DEFAULT see who
// really asks. Names are exact; a prefix would catch cuDNN's.
#include "interpose/lookup.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <dlfcn.h>
#include <string_view>

#include "interpose/call.h"
#include "interpose/events.h"
#include "interpose/library_hooks.h"
#include "interpose/loader.h"
#include "interpose/torch_hooks.h"

namespace vramtrack {
namespace {

enum class NameKind : uint8_t { kHook, kRuntime, kLibrary, kUnhooked };

struct Name {
  std::string_view text;
  NameKind kind;
  uint16_t index;  // kHook: the DriverFunction; kLibrary: the LibraryFunction
};

template <size_t size>
constexpr std::array<Name, size> sorted(std::array<Name, size> names) {
  std::sort(names.begin(), names.end(), [](const Name& a, const Name& b) { return a.text < b.text; });
  return names;
}

constexpr auto kNames = sorted(std::to_array<Name>({
#define DRIVER_HOOK(name) {#name, NameKind::kHook, static_cast<uint16_t>(DriverFunction::name)},
#define DRIVER_UNHOOKED(name) {#name, NameKind::kUnhooked, 0},
#define RUNTIME_HOOK(name, api, parameters, arguments) {#name, NameKind::kRuntime, 0},
#define LIBRARY_HOOK(kind, name, count, parameters, arguments) LIBRARY_END_HOOK(kind, name, parameters)
#define LIBRARY_END_HOOK(kind, name, parameters) {#name, NameKind::kLibrary, static_cast<uint16_t>(LibraryFunction::name)},
#include "interpose/hooks.def"
}));

// Every look-up of the process comes here; all but CUDA's and NCCL's leave at the second character.
const Name* known(const char* name) {
  if (!name || !((name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'c'))) return nullptr;
  const std::string_view text(name);
  const auto found = std::lower_bound(kNames.begin(), kNames.end(), text,
                                      [](const Name& a, std::string_view wanted) { return a.text < wanted; });
  return found != kNames.end() && found->text == text ? &*found : nullptr;
}

// --- the real driver -------------------------------------------------------------------------------------------------------

constexpr size_t kHooks = static_cast<size_t>(DriverFunction::kHookCount);
constexpr size_t kFunctions = static_cast<size_t>(DriverFunction::kCount);

constexpr const char* kFunctionNames[kFunctions] = {
#define DRIVER_HOOK(name) #name,
#include "interpose/hooks.def"
#define DRIVER_QUERY(name) #name,
#include "interpose/hooks.def"
};

constinit std::atomic<void*> real_functions[kFunctions] = {};  // null: this driver has none
constinit std::atomic<bool> driver_known{false};

// True once libcuda is loaded. It is not unloaded any more then. Threads that come here together store the same addresses.
bool find_driver() {
  if (driver_known.load(std::memory_order_acquire)) return true;  // pairs with the store below
  const OwnWork work;
  void* libcuda = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NODELETE | RTLD_LAZY);
  if (libcuda) {
    for (size_t i = 0; i < kFunctions; ++i) {
      real_functions[i].store(real_dlsym()(libcuda, kFunctionNames[i]), std::memory_order_relaxed);
    }
    driver_known.store(true, std::memory_order_release);  // pairs with the loads in find_driver
  }
  dlerror();  // a function that this driver does not have is no error of the program's
  return libcuda;
}

// CUDA_ERROR_NOT_FOUND. Callable as any of the driver's functions: arguments are the caller's business on our ABIs.
int no_such_function() { return 500; }

void* driver_function_at(size_t index) { return real_functions[index].load(std::memory_order_relaxed); }

// Once for each name.
void tell_unhooked(const Name& name) {
  static constinit std::atomic<bool> told[kNames.size()] = {};
  if (!told[&name - kNames.data()].exchange(true, std::memory_order_relaxed)) memory_function_unhooked(name.text.data());
}

// --- what dlsym and dlvsym do with our names -------------------------------------------------------------------------------

bool is_loaded(const Name& name) {
  switch (name.kind) {
    case NameKind::kRuntime: return loaded_object("libcudart.so") != nullptr;
    case NameKind::kLibrary: return loaded_object(library_of(kLibraryWrappers[name.index].kind)) != nullptr;
    default: return find_driver();
  }
}

// The wrapper asks the first library of that name; of a second one in the process its callers get their own function.
void* library_wrapper(const Name& name, const char* text, void* found) {
  const LibraryWrapper& wrapper = kLibraryWrappers[name.index];
  void* first = loaded_object(library_of(wrapper.kind));
  return first && real_dlsym()(first, text) == found ? wrapper.function : found;
}

// An exported wrapper was found by the global scope. Without us the program would find the next one, or nothing: that is how
// some ask whether there is CUDA at all.
void* found_ourselves(const Name& name, const char* text, void* ours) {
  if (next_after_us(text)) return ours;
  return is_loaded(name) ? ours : next_after_us(text);  // once more: dlerror() must tell of it
}

// `find` goes last of all that touches the loader, so that dlerror() tells the program of its own look-up.
template <typename Find>
void* looked_up(const char* text, Find find) {
  const Name& name = *known(text);
  const bool driver_loaded = find_driver();
  {
    const OwnWork work;
    find_torch();
  }
  prepare_recording();
  void* found = find();
  if (!found || name.kind == NameKind::kUnhooked) return found;
  if (in_this_library(found)) return found_ourselves(name, text, found);
  if (name.kind == NameKind::kLibrary) return library_wrapper(name, text, found);
  const bool is_drivers = name.kind == NameKind::kHook && driver_loaded && found == driver_function_at(name.index);
  return is_drivers ? kDriverWrappers[name.index] : found;
}

void* dlsym_of_ours(void* handle, const char* name) {
  return looked_up(name, [=] { return real_dlsym()(handle, name); });
}

void* dlvsym_of_ours(void* handle, const char* name, const char* version) {
  return looked_up(name, [=] { return real_dlvsym()(handle, name, version); });
}

// RTLD_NEXT depends on who asks, and who asks is an interposer like us: it must get the function behind it, not ours before it.
bool is_ours(const void* handle, const char* text) {
  const Name* name = known(text);
  if (!name || handle == RTLD_NEXT) return false;
  if (name->kind != NameKind::kUnhooked) return true;
  tell_unhooked(*name);
  return false;
}

}  // namespace

extern "C" {

// Where `dlsym` and `dlvsym` jump to; called from lookup_ARCH.S.
__attribute__((visibility("hidden"))) void* vramtrack_dlsym_target(void* handle, const char* name) {
  return is_ours(handle, name) ? reinterpret_cast<void*>(&dlsym_of_ours) : reinterpret_cast<void*>(real_dlsym());
}

__attribute__((visibility("hidden"))) void* vramtrack_dlvsym_target(void* handle, const char* name) {
  return is_ours(handle, name) ? reinterpret_cast<void*>(&dlvsym_of_ours) : reinterpret_cast<void*>(real_dlvsym());
}

}  // extern "C"

void* real_driver_function(DriverFunction function) {
  find_driver();
  void* address = driver_function_at(static_cast<size_t>(function));
  return address ? address : reinterpret_cast<void*>(&no_such_function);
}

void* wrapper_for(const char* name, void* address) {
  // Ours already: a driver that looks its own functions up by dlsym was given them.
  if (!address || in_this_library(address) || !find_driver()) return address;
  for (size_t i = 0; i < kHooks; ++i) {
    if (driver_function_at(i) == address) return kDriverWrappers[i];
  }
  if (const Name* memory_function = known(name)) {
    // A hook's name at an address that no wrapper is for: a version newer than this library.
    if (memory_function->kind == NameKind::kUnhooked || memory_function->kind == NameKind::kHook) tell_unhooked(*memory_function);
  }
  return address;
}

}  // namespace vramtrack

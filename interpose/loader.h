// What does the dynamic loader know? Asked without being heard by our own dlsym, and without losing sight of who asks.
#pragma once

#include <string_view>

namespace vramtrack {

using Dlsym = void*(void* handle, const char* name);
using Dlvsym = void*(void* handle, const char* name, const char* version);

using Dlclose = int(void* handle);

// libc's own functions. Never null. Takes no lock, allocates nothing, works before any constructor has run.
Dlsym* real_dlsym();
Dlvsym* real_dlvsym();
Dlclose* real_dlclose();

// What the global scope would have found without us; sets dlerror() as that search would have.
void* next_after_us(const char* name);

bool in_this_library(const void* address);

// A handle of the loaded object whose file name begins with `name_prefix` ("libc10.so"); null if there is none. Takes the loader's
// lock, and the object stays loaded from then on: function pointers taken from it are kept.
void* loaded_object(std::string_view name_prefix);

// What `name` means in the object that contains `address` and in those it is linked with; null if nothing, or if that is the main
// program. Takes the loader's lock; nothing stays loaded for it.
void* found_from(const void* address, const char* name);

// The object that contains `address` stays loaded from now on.
void keep_loaded(const void* address);

bool in_same_object(const void* a, const void* b);

// The file name, without directories, of the object that contains `address`; empty if there is none.
std::string_view object_name(const void* address);

}  // namespace vramtrack

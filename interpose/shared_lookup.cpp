// Which library's function would this caller have called without us? See shared_lookup.h.
#include "interpose/shared_lookup.h"

#include <atomic>
#include <cstdint>
#include <dlfcn.h>

#include "interpose/call.h"
#include "interpose/loader.h"

namespace vramtrack {
namespace {

// Another interposer's own cudaMalloc looks for what lies behind it. (A library that is linked with a runtime statically calls its own,
// too, but is not what the global scope finds first.)
bool calls_behind_itself(const void* own, const char* name, const void* return_address) {
  return in_same_object(own, return_address) && real_dlsym()(RTLD_DEFAULT, name) == own;
}

// The global scope comes first, as it does for the loader, but not when it leads to another version of the library than the
// one the caller is linked with: symbol versions would have kept them apart.
void* find(std::string_view library, const char* name, const void* return_address) {
  const OwnWork work;
  void* next = next_after_us(name);
  void* own = found_from(return_address, name);
  if (own && (in_this_library(own) || calls_behind_itself(own, name, return_address))) own = nullptr;
  void* found = next;
  if (!next || (own && object_name(next).starts_with(library))) found = own;
  if (!found) {
    // Reached by some other way, a look-up in our own exports for one: then any such library is better than none.
    if (void* loaded = loaded_object(library)) found = real_dlsym()(loaded, name);
  }
  if (found) keep_loaded(found);  // for the answer is kept
  dlerror();  // no error of the program's
  return found;
}

// Answers by place of call. A collision costs a new search, nothing else.
struct Answer {
  std::atomic<uint64_t> key;  // 0 = empty, kBusy = being written
  std::atomic<void*> function;
};

constexpr uint64_t kBusy = 1;
constexpr uint32_t kAnswers = 256;
constinit Answer answers[kAnswers] = {};

uint64_t key_of(const char* name, const void* return_address) {
  const uint64_t mixed = reinterpret_cast<uint64_t>(name) * 0x9e3779b97f4a7c15u;
  const uint64_t key = mixed ^ reinterpret_cast<uint64_t>(return_address);
  return key <= kBusy ? kBusy + 1 : key;
}

}  // namespace

void* real_shared_function(std::string_view library, const char* name, const void* return_address) {
  const uint64_t key = key_of(name, return_address);
  Answer& answer = answers[(key * 0x9e3779b97f4a7c15u) >> 56];
  uint64_t seen = answer.key.load(std::memory_order_acquire);  // pairs with the release store of the key below
  if (seen == key) {
    void* function = answer.function.load(std::memory_order_acquire);  // keeps the second load of the key behind it
    if (answer.key.load(std::memory_order_relaxed) == key) return function;
  }
  void* function = find(library, name, return_address);
  if (!function) return nullptr;
  // One writer at a time; who comes second leaves the place as it is. The exchange is seen before the function changes
  // (release below on the function, acquired by the reader above).
  if (seen != kBusy && answer.key.compare_exchange_strong(seen, kBusy, std::memory_order_relaxed)) {
    answer.function.store(function, std::memory_order_release);  // pairs with the acquire load of the function
    answer.key.store(key, std::memory_order_release);            // pairs with the acquire load of the key
  }
  return function;
}

void forget_shared_functions() {
  for (Answer& answer : answers) {
    uint64_t key = answer.key.load(std::memory_order_relaxed);
    if (key > kBusy) answer.key.compare_exchange_strong(key, 0, std::memory_order_relaxed);
  }
}

}  // namespace vramtrack

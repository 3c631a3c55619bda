// Which wrapper stands for a driver function that the program looked up, and where is the real one?
//
// Programs reach libcuda by dlsym, by cuGetProcAddress or, when linked with it, by symbol interposition. Whatever the way,
// they get the wrapper and the wrapper gets the real function from here.
#pragma once

#include <cstdint>

namespace vramtrack {

enum class DriverFunction : uint16_t {
#define DRIVER_HOOK(name) name,
#include "interpose/hooks.def"
  kHookCount,
  kBeforeQueries = kHookCount - 1,
#define DRIVER_QUERY(name) name,
#include "interpose/hooks.def"
  kCount
};

// Never null: where this driver has no such function, one that answers CUDA_ERROR_NOT_FOUND whatever it is given.
void* real_driver_function(DriverFunction);

// The wrapper if `address` is a function of libcuda that has one, else `address`. What decides is the address: it alone
// carries the version and the flags that `name` was asked with. A memory function without a wrapper is noted.
void* wrapper_for(const char* name, void* address);

// Our wrappers, in the order of DriverFunction. By their hidden names: the exported ones may be another preloaded library's.
extern void* const kDriverWrappers[static_cast<unsigned>(DriverFunction::kHookCount)];  // driver_wrappers.cpp

}  // namespace vramtrack

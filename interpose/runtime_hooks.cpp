// The wrappers of the shared runtime API: they lend their name and call site to what the driver records, nothing else.
//
// A program linked with the static runtime never comes here, and loses only the name.
#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

#include "interpose/call.h"
#include "interpose/events.h"
#include "interpose/shared_lookup.h"

using namespace vramtrack;

// What is not in every header: the per-thread variants, which cuda_runtime_api.h makes by renaming.
extern "C" {
#define RUNTIME_HOOK(name, api, parameters, arguments) \
  __attribute__((visibility("default"))) cudaError_t CUDARTAPI name parameters;
#include "interpose/hooks.def"
}

// The first call may initialise the runtime, which loads the driver: nothing of ours is held meanwhile.
#define RUNTIME_HOOK(name, api, parameters, arguments)                                                                             \
  extern "C" cudaError_t CUDARTAPI name parameters {                                                                               \
    const Call call(api, VRAMTRACK_CALL_SITE);                                                                                     \
    prepare_recording();                                                                                                           \
    const auto real =                                                                                                              \
        reinterpret_cast<decltype(&name)>(real_shared_function("libcudart.so", #name, __builtin_return_address(0)));               \
    return real ? real arguments : cudaErrorSharedObjectSymbolNotFound;                                                            \
  }
#include "interpose/hooks.def"

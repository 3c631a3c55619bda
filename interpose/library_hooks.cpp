// The wrappers of what makes a handle of the libraries that come with CUDA: cuBLAS, cuDNN, cuFFT, cuRAND, cuSOLVER, cuSPARSE, NCCL.
//
// A handle brings workspaces, streams and code with it. What it allocates meanwhile is recorded in its name and at its caller's line;
// a handle made inside of another's function (cuBLAS makes one of cuBLASLt) is that one's business.
// The functions are declared here, by their documented signatures, since these libraries' headers may not be there: every handle is a
// pointer but cuFFT's, every enumerator an int.
#include "interpose/driver_calls.h"
#include "interpose/library_hooks.h"
#include "interpose/shared_lookup.h"

using namespace vramtrack;
using format::Kind;

namespace {

struct NcclUniqueId {
  char bytes[128];
};

constexpr int kNotInitialized = 1;  // what each of these libraries answers, or an error of its own, when it is not there

// A plan of cuFFT may have the number 0; its own "no plan" is -1.
uint64_t handle_of(int plan) { return static_cast<uint64_t>(static_cast<int64_t>(plan) + 1); }
uint64_t handle_of(void* handle) { return reinterpret_cast<uint64_t>(handle); }

template <typename Handle>
int library_made(Kind kind, const char* api, int result, const Handle* handles, int count) {
  if (result != 0 || !handles || Call::outermost().api != api) return result;
  for (int i = 0; i < count; ++i) told_handle(kind, CUDA_SUCCESS, handle_of(handles[i]));
  return result;
}

}  // namespace

std::string_view vramtrack::library_of(Kind kind) {
  switch (kind) {
    case Kind::kCublas: return "libcublas.so";
    case Kind::kCublasLt: return "libcublasLt.so";
    case Kind::kCudnn: return "libcudnn.so";
    case Kind::kCufft: return "libcufft.so";
    case Kind::kCurand: return "libcurand.so";
    case Kind::kCusolver: return "libcusolver.so";
    case Kind::kCusparse: return "libcusparse.so";
    case Kind::kNccl: return "libnccl.so";
    default: return "";
  }
}

#define EXPORTED extern "C" __attribute__((visibility("default"))) int
#define REAL(kind, name) \
  reinterpret_cast<decltype(&name)>(real_shared_function(library_of(Kind::kind), #name, __builtin_return_address(0)))

// The first call may initialise the runtime, which loads the driver: nothing of ours is held meanwhile.
#define LIBRARY_HOOK(kind, name, count, parameters, arguments)                                     \
  EXPORTED name parameters {                                                                       \
    static constexpr char kName[] = #name;                                                         \
    const Call call(kName, VRAMTRACK_CALL_SITE);                                                   \
    prepare_recording();                                                                           \
    const auto real = REAL(kind, name);                                                            \
    if (!real) return kNotInitialized;                                                             \
    const int result = real arguments;                                                             \
    return library_made(Kind::kind, kName, result, handle, count);                                 \
  }
#define LIBRARY_END_HOOK(kind, name, parameters)                                                   \
  EXPORTED name parameters {                                                                       \
    const Call call(#name, VRAMTRACK_CALL_SITE);                                                   \
    const auto real = REAL(kind, name);                                                            \
    if (!real) return kNotInitialized;                                                             \
    PendingFree pending(handle_of(handle), Kind::kind);                                            \
    const int result = real(handle);                                                               \
    pending.finish(result);                                                                        \
    return result;                                                                                 \
  }
#include "interpose/hooks.def"

// Their own names, whatever another preloaded library does with the exported ones; see driver_hooks.cpp.
extern "C" {
#define LIBRARY_HOOK(kind, name, count, parameters, arguments) LIBRARY_END_HOOK(kind, name, parameters)
#define LIBRARY_END_HOOK(kind, name, parameters) \
  __attribute__((visibility("hidden"), alias(#name), copy(name))) decltype(name) vramtrack_##name;
#include "interpose/hooks.def"
}

const LibraryWrapper vramtrack::kLibraryWrappers[] = {
#define LIBRARY_HOOK(kind, name, count, parameters, arguments) LIBRARY_END_HOOK(kind, name, parameters)
#define LIBRARY_END_HOOK(kind, name, parameters) {Kind::kind, reinterpret_cast<void*>(&vramtrack_##name)},
#include "interpose/hooks.def"
};

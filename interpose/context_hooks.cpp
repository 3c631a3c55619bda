// The wrappers of contexts, which hold memory of their own and take other memory with them when they go.
#include <atomic>

#include "interpose/driver_calls.h"

using namespace vramtrack;
using format::Kind;

namespace {

// A device's primary context is retained by everybody who uses the device (each runtime, each library): one context, whose first
// user is the one that made it. Known by its device: a reset says no more.
constexpr int kDevices = 64;
constinit std::atomic<uint64_t> primary_contexts[kDevices] = {};

bool is_device(CUdevice device) { return device >= 0 && device < kDevices; }

CUresult created(CUresult result, const CUcontext* context, CUdevice device) {
  if (result == CUDA_SUCCESS && context) context_in_use(device, (uint64_t)*context);
  return result;
}

template <typename Function>
CUresult destroyed(CUcontext context, Function real) {
  const CUresult result = real(context);
  if (result == CUDA_SUCCESS) driver_context_gone(-1, (uint64_t)context);
  return result;
}

void primary_is_gone(CUdevice device) {
  driver_context_gone(device, is_device(device) ? primary_contexts[device].exchange(0, std::memory_order_relaxed) : 0);
}

// The primary context, and its memory, goes with the last release.
bool is_active(CUdevice device) {
  const OwnWork work;
  unsigned flags;
  int active = 1;
  return VRAMTRACK_REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS || active;
}

CUresult primary_released(CUdevice device, decltype(&cuDevicePrimaryCtxRelease) real) {
  const CUresult result = real(device);
  if (result == CUDA_SUCCESS && !is_active(device)) primary_is_gone(device);
  return result;
}

CUresult primary_reset(CUdevice device, decltype(&cuDevicePrimaryCtxReset) real) {
  const CUresult result = real(device);
  if (result == CUDA_SUCCESS) primary_is_gone(device);
  return result;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuCtxCreate(CUcontext* context, unsigned flags, CUdevice device) {
  const Call call("cuCtxCreate", VRAMTRACK_CALL_SITE);
  return created(VRAMTRACK_REAL(cuCtxCreate)(context, flags, device), context, device);
}

CUresult CUDAAPI cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  const Call call("cuCtxCreate", VRAMTRACK_CALL_SITE);
  return created(VRAMTRACK_REAL(cuCtxCreate_v2)(context, flags, device), context, device);
}

CUresult CUDAAPI cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* affinity, int count, unsigned flags, CUdevice device) {
  const Call call("cuCtxCreate", VRAMTRACK_CALL_SITE);
  return created(VRAMTRACK_REAL(cuCtxCreate_v3)(context, affinity, count, flags, device), context, device);
}

CUresult CUDAAPI cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* parameters, unsigned flags, CUdevice device) {
  const Call call("cuCtxCreate", VRAMTRACK_CALL_SITE);
  return created(VRAMTRACK_REAL(cuCtxCreate_v4)(context, parameters, flags, device), context, device);
}

CUresult CUDAAPI cuCtxDestroy(CUcontext context) {
  const Call call("cuCtxDestroy", VRAMTRACK_CALL_SITE);
  return destroyed(context, VRAMTRACK_REAL(cuCtxDestroy));
}

CUresult CUDAAPI cuCtxDestroy_v2(CUcontext context) {
  const Call call("cuCtxDestroy", VRAMTRACK_CALL_SITE);
  return destroyed(context, VRAMTRACK_REAL(cuCtxDestroy_v2));
}

// Destroys when the last user detaches. Contexts with several users need cuCtxAttach, which nothing has used since CUDA 4.
CUresult CUDAAPI cuCtxDetach(CUcontext context) {
  const Call call("cuCtxDetach", VRAMTRACK_CALL_SITE);
  return destroyed(context, VRAMTRACK_REAL(cuCtxDetach));
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const Call call("cuDevicePrimaryCtxRetain", VRAMTRACK_CALL_SITE);
  const CUresult result = VRAMTRACK_REAL(cuDevicePrimaryCtxRetain)(context, device);
  if (result == CUDA_SUCCESS && context && is_device(device)) {
    primary_contexts[device].store((uint64_t)*context, std::memory_order_relaxed);
  }
  return created(result, context, device);
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice device) {
  const Call call("cuDevicePrimaryCtxReset", VRAMTRACK_CALL_SITE);
  return primary_reset(device, VRAMTRACK_REAL(cuDevicePrimaryCtxReset));
}

CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice device) {
  const Call call("cuDevicePrimaryCtxReset", VRAMTRACK_CALL_SITE);
  return primary_reset(device, VRAMTRACK_REAL(cuDevicePrimaryCtxReset_v2));
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
  const Call call("cuDevicePrimaryCtxRelease", VRAMTRACK_CALL_SITE);
  return primary_released(device, VRAMTRACK_REAL(cuDevicePrimaryCtxRelease));
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  const Call call("cuDevicePrimaryCtxRelease", VRAMTRACK_CALL_SITE);
  return primary_released(device, VRAMTRACK_REAL(cuDevicePrimaryCtxRelease_v2));
}

// A share of a device's multiprocessors. Its memory is the primary context's, and its streams are destroyed by their own functions.
CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx* context, CUdevResourceDesc resources, CUdevice device, unsigned flags) {
  const Call call("cuGreenCtxCreate", VRAMTRACK_CALL_SITE);
  return made(Kind::kGreenContext, VRAMTRACK_REAL(cuGreenCtxCreate)(context, resources, device, flags), context);
}

CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx context) {
  return vramtrack::destroyed(Kind::kGreenContext, context, VRAMTRACK_REAL(cuGreenCtxDestroy));
}

// Their own names, whatever another preloaded library does with the exported ones; see driver_hooks.cpp.
#define CONTEXT_HOOK(name) \
  __attribute__((visibility("hidden"), alias(#name), copy(name))) decltype(name) vramtrack_##name;
#include "interpose/hooks.def"

}  // extern "C"

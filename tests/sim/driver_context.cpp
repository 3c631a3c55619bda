// Which context does a thread work in, and what dies with one? cuCtx* and cuDevicePrimaryCtx*.
#include "context.h"

#include "capture.h"
#include "memory.h"
#include "pool.h"

namespace sim {
namespace {

constexpr unsigned kApiVersion = 3020;  // what cuCtxGetApiVersion has answered since CUDA 3.2

bool push(CUcontext context) {
  ContextStack& stack = context_stack;
  if (stack.depth == ContextStack::kMaxDepth) return false;
  stack.contexts[stack.depth++] = context;
  return true;
}

CUresult create(const char* name, CUcontext* out, unsigned flags, CUdevice device) {
  return driver_call(name, [&] {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    CUcontext context = make_context(device, flags);
    if (!push(context)) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = context;
    return CUDA_SUCCESS;
  });
}

CUresult destroy(const char* name, CUcontext context) {
  return driver_call(name, [&] {
    if (!machine().contexts.contains(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->live) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (device_of(*context).primary == context || context->primary != nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    end_context(context);
    if (context_stack.top() == context) context_stack.depth--;
    return CUDA_SUCCESS;
  });
}

CUresult push_current(const char* name, CUcontext context) {
  return driver_call(name, [&] {
    if (!machine().contexts.contains(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->live) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return push(context) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  });
}

CUresult pop_current(const char* name, CUcontext* out) {
  return driver_call(name, [&] {
    if (context_stack.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
    CUcontext top = context_stack.contexts[--context_stack.depth];
    if (out != nullptr) *out = top;
    return CUDA_SUCCESS;
  });
}

template <class Body>
CUresult primary_call(const char* name, CUdevice device, Body&& body) {
  return driver_call(name, [&] {
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    return static_cast<CUresult>(body(machine().devices[device]));
  });
}

CUresult release_primary(const char* name, CUdevice device) {
  return primary_call(name, device, [](Device& d) {
    if (d.primary_retains == 0) return CUDA_ERROR_INVALID_CONTEXT;
    sim::release_primary(d);
    return CUDA_SUCCESS;
  });
}

CUresult reset_primary(const char* name, CUdevice device) {
  return primary_call(name, device, [](Device& d) {
    if (d.primary != nullptr) end_context(d.primary);
    d.primary_retains = 0;
    return CUDA_SUCCESS;
  });
}

CUresult set_primary_flags(const char* name, CUdevice device, unsigned flags) {
  return primary_call(name, device, [&](Device& d) {
    d.primary_flags = flags;
    if (d.primary != nullptr) d.primary->flags = flags;
    return CUDA_SUCCESS;
  });
}

CUresult synchronize(CUctx_st& context) {
  if (CUresult error = forbid_during_capture()) return error;
  trim_pools_to_threshold(context.device);
  return CUDA_SUCCESS;
}

}  // namespace

CUcontext make_context(CUdevice device, unsigned flags) {
  auto context = std::make_unique<CUctx_st>();
  context->device = device;
  context->flags = flags;
  context->api_version = kApiVersion;
  CUcontext handle = machine().contexts.add(std::move(context));
  handle->default_stream = make_stream(handle, 0, 0);
  handle->default_stream->legacy_default = true;
  return handle;
}

void end_context(CUcontext context) {
  if (!context->live) return;
  release_everything_of(context);
  context->thread_streams.clear();
  context->live = false;
  machine().contexts.for_each([&](CUctx_st& other) {
    if (other.primary == context) end_context(&other);
  });
}

CUcontext retain_primary(CUdevice device) {
  Device& d = machine().devices[device];
  if (d.primary == nullptr) d.primary = make_context(device, d.primary_flags);
  d.primary->live = true;
  d.primary_retains++;
  return d.primary;
}

void release_primary(Device& device) {
  if (--device.primary_retains == 0) end_context(device.primary);
}

}  // namespace sim

using namespace sim;

CUresult cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice device) { return create(__func__, context, flags, device); }
CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  return create(__func__, context, flags, device);
}
CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int, unsigned int flags, CUdevice device) {
  return create(__func__, context, flags, device);
}
CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams*, unsigned int flags, CUdevice device) {
  return create(__func__, context, flags, device);
}

CUresult cuCtxDestroy(CUcontext context) { return destroy(__func__, context); }
CUresult cuCtxDestroy_v2(CUcontext context) { return destroy(__func__, context); }
CUresult cuCtxPushCurrent(CUcontext context) { return push_current(__func__, context); }
CUresult cuCtxPushCurrent_v2(CUcontext context) { return push_current(__func__, context); }
CUresult cuCtxPopCurrent(CUcontext* context) { return pop_current(__func__, context); }
CUresult cuCtxPopCurrent_v2(CUcontext* context) { return pop_current(__func__, context); }

CUresult cuCtxSetCurrent(CUcontext context) {
  return driver_call(__func__, [&] {
    ContextStack& stack = context_stack;
    if (context == nullptr) {
      if (stack.depth > 0) stack.depth--;
      return CUDA_SUCCESS;
    }
    if (!machine().contexts.contains(context)) return CUDA_ERROR_INVALID_CONTEXT;
    bool primary = device_of(*context).primary == context;  // may be set while reset: a later retain revives it
    if (!context->live && !primary) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (stack.depth == 0) stack.depth = 1;
    stack.contexts[stack.depth - 1] = context;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  if (CUresult failure = requested_failure(__func__)) return failure;
  if (CUresult unusable = driver_usable()) return unusable;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = context_stack.top();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return context_call(__func__, [&](CUctx_st& context) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = context.device;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  return driver_call(__func__, [&] {
    if (context == nullptr) context = context_stack.top();
    if (!machine().contexts.contains(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = context->device;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSynchronize() {
  return context_call(__func__, [](CUctx_st& context) { return synchronize(context); });
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
  return driver_call(__func__, [&] {
    if (context == nullptr) context = context_stack.top();
    if (!machine().contexts.contains(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->live) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return synchronize(*context);
  });
}

CUresult cuCtxGetFlags(unsigned int* flags) {
  return context_call(__func__, [&](CUctx_st& context) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = context.flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned int* version) {
  return driver_call(__func__, [&] {
    if (context == nullptr) context = context_stack.top();
    if (!machine().contexts.contains(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *version = context->api_version;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return context_call(__func__, [&](CUctx_st&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return primary_call(__func__, device, [&](Device&) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = retain_primary(device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return release_primary(__func__, device); }
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return release_primary(__func__, device); }
CUresult cuDevicePrimaryCtxReset(CUdevice device) { return reset_primary(__func__, device); }
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) { return reset_primary(__func__, device); }
CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  return set_primary_flags(__func__, device, flags);
}
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  return set_primary_flags(__func__, device, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  return primary_call(__func__, device, [&](Device& d) {
    if (flags != nullptr) *flags = d.primary_flags;
    if (active != nullptr) *active = d.primary != nullptr && d.primary->live;
    return CUDA_SUCCESS;
  });
}

// What do green contexts do? They hold a reference to their device's primary context, where all that is made in one belongs but
// the streams of cuGreenCtxStreamCreate. A device's multiprocessors are one resource, which cannot be split.
#include "capture.h"
#include "context.h"

namespace sim {
namespace {

constexpr unsigned kCoscheduled = 8;

// `body` sees a green context that is not destroyed.
template <class Body>
CUresult green_call(const char* name, CUgreenCtx green, Body&& body) {
  return driver_call(name, [&] {
    if (!machine().green_contexts.contains(green)) return CUDA_ERROR_INVALID_CONTEXT;
    if (!green->context->live) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return static_cast<CUresult>(body(*green->context));
  });
}

}  // namespace
}  // namespace sim

using namespace sim;

// The padding says of which device the resource is.
CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* out, CUdevResourceType type) {
  return driver_call(__func__, [&] {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    *out = {};
    out->type = type;
    out->_internal_padding[0] = static_cast<unsigned char>(device);
    out->sm = {unsigned{kMultiprocessors}, kCoscheduled, kCoscheduled};
    return CUDA_SUCCESS;
  });
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* out, CUdevResource* resources, unsigned int count) {
  return driver_call(__func__, [&] {
    if (out == nullptr || resources == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
      if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (count > 1) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;  // not of one split: there are none
    *out = machine().resource_descriptors.add(
        std::make_unique<CUdevResourceDesc_st>(CUdevResourceDesc_st{resources[0]._internal_padding[0]}));
    return CUDA_SUCCESS;
  });
}

CUresult cuGreenCtxCreate(CUgreenCtx* out, CUdevResourceDesc descriptor, CUdevice device, unsigned int flags) {
  return driver_call(__func__, [&] {
    if (out == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
    if (!machine().resource_descriptors.contains(descriptor)) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (descriptor->device != device) return CUDA_ERROR_INVALID_VALUE;
    CUcontext primary = retain_primary(device);
    CUcontext context = make_context(device, primary->flags);
    context->primary = primary;
    *out = machine().green_contexts.add(std::make_unique<CUgreenCtx_st>(CUgreenCtx_st{context}));
    return CUDA_SUCCESS;
  });
}

CUresult cuGreenCtxDestroy(CUgreenCtx green) {
  return green_call(__func__, green, [](CUctx_st& context) {
    end_context(&context);
    release_primary(device_of(context));
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxFromGreenCtx(CUcontext* out, CUgreenCtx green) {
  return green_call(__func__, green, [&](CUctx_st& context) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = &context;
    return CUDA_SUCCESS;
  });
}

CUresult cuGreenCtxStreamCreate(CUstream* out, CUgreenCtx green, unsigned int flags, int priority) {
  return green_call(__func__, green, [&](CUctx_st& context) {
    if (out == nullptr || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    *out = machine().streams.add(make_stream(&context, flags, priority));
    return CUDA_SUCCESS;
  });
}

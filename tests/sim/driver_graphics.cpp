// What becomes of OpenGL's buffers and images that are registered? There is no OpenGL here: any name but 0 is taken to be one's.
#include "handles.h"

namespace sim {
namespace {

constexpr unsigned kBufferFlags = CU_GRAPHICS_REGISTER_FLAGS_READ_ONLY | CU_GRAPHICS_REGISTER_FLAGS_WRITE_DISCARD;
constexpr unsigned kImageFlags = kBufferFlags | CU_GRAPHICS_REGISTER_FLAGS_SURFACE_LDST | CU_GRAPHICS_REGISTER_FLAGS_TEXTURE_GATHER;

CUresult register_resource(const char* call, CUgraphicsResource* out, unsigned name, unsigned flags, unsigned known_flags) {
  return context_call(call, [&](CUctx_st& context) {
    if (out == nullptr || (flags & ~known_flags) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (name == 0) return CUDA_ERROR_INVALID_HANDLE;
    *out = machine().graphics_resources.add(std::make_unique<CUgraphicsResource_st>(CUgraphicsResource_st{&context}));
    return CUDA_SUCCESS;
  });
}

}  // namespace
}  // namespace sim

using namespace sim;

CUresult cuGraphicsGLRegisterBuffer(CUgraphicsResource* resource, unsigned int buffer, unsigned int flags) {
  return register_resource(__func__, resource, buffer, flags, kBufferFlags);
}

CUresult cuGraphicsGLRegisterImage(CUgraphicsResource* resource, unsigned int image, unsigned int, unsigned int flags) {
  return register_resource(__func__, resource, image, flags, kImageFlags);
}

CUresult cuGraphicsUnregisterResource(CUgraphicsResource resource) {
  return context_call(__func__, [&](CUctx_st&) {
    return machine().graphics_resources.remove(resource) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

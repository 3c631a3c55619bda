// How do the runtime's arrays map to the driver's? A cudaArray_t is a CUarray; only channel descriptions differ.
#include <initializer_list>

#include "runtime_driver.h"

using namespace sim_runtime;

static_assert(cudaArrayLayered == CUDA_ARRAY3D_LAYERED && cudaArraySurfaceLoadStore == CUDA_ARRAY3D_SURFACE_LDST);
static_assert(cudaArrayCubemap == CUDA_ARRAY3D_CUBEMAP && cudaArrayTextureGather == CUDA_ARRAY3D_TEXTURE_GATHER);

namespace {

CUarray driver_array(cudaArray_const_t array) { return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array)); }
CUmipmappedArray driver_mipmapped(cudaMipmappedArray_const_t array) {
  return reinterpret_cast<CUmipmappedArray>(const_cast<cudaMipmappedArray_t>(array));
}

int pick(int bits, int of_8, int of_16, int of_32) {
  switch (bits) {
    case 8: return of_8;
    case 16: return of_16;
    case 32: return of_32;
    default: return 0;
  }
}

// 0 for a combination that no array has.
int format_of(cudaChannelFormatKind kind, int bits) {
  switch (kind) {
    case cudaChannelFormatKindUnsigned:
      return pick(bits, CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_UNSIGNED_INT32);
    case cudaChannelFormatKindSigned:
      return pick(bits, CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_SIGNED_INT32);
    case cudaChannelFormatKindFloat: return pick(bits, 0, CU_AD_FORMAT_HALF, CU_AD_FORMAT_FLOAT);
    default: return 0;
  }
}

bool describe(CUDA_ARRAY3D_DESCRIPTOR& out, const cudaChannelFormatDesc* channels, cudaExtent extent, unsigned flags) {
  if (channels == nullptr) return false;
  int format = format_of(channels->f, channels->x);
  out = {extent.width, extent.height, extent.depth, static_cast<CUarray_format>(format), 1, flags};
  if (channels->y != 0) out.NumChannels = channels->w != 0 ? 4 : channels->z != 0 ? 3 : 2;
  return format != 0;
}

cudaChannelFormatDesc channels_of(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  for (cudaChannelFormatKind kind : {cudaChannelFormatKindUnsigned, cudaChannelFormatKindSigned, cudaChannelFormatKindFloat})
    for (int bits : {8, 16, 32}) {
      if (format_of(kind, bits) != static_cast<int>(d.Format)) continue;
      return {bits, d.NumChannels > 1 ? bits : 0, d.NumChannels > 2 ? bits : 0, d.NumChannels > 3 ? bits : 0, kind};
    }
  return {0, 0, 0, 0, cudaChannelFormatKindNone};
}

}  // namespace

cudaError_t cudaMalloc3DArray(cudaArray_t* out, const cudaChannelFormatDesc* channels, cudaExtent extent, unsigned int flags) {
  return with_context([&] {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    if (out == nullptr || !describe(descriptor, channels, extent, flags)) return CUDA_ERROR_INVALID_VALUE;
    return driver.cuArray3DCreate(reinterpret_cast<CUarray*>(out), &descriptor);
  });
}

cudaError_t cudaMallocArray(cudaArray_t* out, const cudaChannelFormatDesc* channels, size_t width, size_t height,
                            unsigned int flags) {
  return cudaMalloc3DArray(out, channels, cudaExtent{width, height, 0}, flags);
}

cudaError_t cudaFreeArray(cudaArray_t array) {
  return with_context([&] { return array == nullptr ? CUDA_SUCCESS : driver.cuArrayDestroy(driver_array(array)); });
}

cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* channels, cudaExtent* extent, unsigned int* flags, cudaArray_t array) {
  return with_context([&] {
    CUDA_ARRAY3D_DESCRIPTOR d;
    if (CUresult error = driver.cuArray3DGetDescriptor(&d, driver_array(array))) return error;
    if (channels != nullptr) *channels = channels_of(d);
    if (extent != nullptr) *extent = {d.Width, d.Height, d.Depth};
    if (flags != nullptr) *flags = d.Flags;
    return CUDA_SUCCESS;
  });
}

cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* channels, cudaArray_const_t array) {
  return cudaArrayGetInfo(channels, nullptr, nullptr, const_cast<cudaArray_t>(array));
}

cudaError_t cudaArrayGetMemoryRequirements(cudaArrayMemoryRequirements* out, cudaArray_t array, int device) {
  return with_context([&] {
    CUDA_ARRAY_MEMORY_REQUIREMENTS requirements;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = driver.cuArrayGetMemoryRequirements(&requirements, driver_array(array), device)) return error;
    *out = {};
    out->size = requirements.size;
    out->alignment = requirements.alignment;
    return CUDA_SUCCESS;
  });
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t* out, const cudaChannelFormatDesc* channels, cudaExtent extent,
                                     unsigned int level_count, unsigned int flags) {
  return with_context([&] {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    if (out == nullptr || !describe(descriptor, channels, extent, flags)) return CUDA_ERROR_INVALID_VALUE;
    return driver.cuMipmappedArrayCreate(reinterpret_cast<CUmipmappedArray*>(out), &descriptor, level_count);
  });
}

cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t* out, cudaMipmappedArray_const_t array, unsigned int level) {
  return with_context([&] {
    return driver.cuMipmappedArrayGetLevel(reinterpret_cast<CUarray*>(out), driver_mipmapped(array), level);
  });
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  return with_context(
      [&] { return array == nullptr ? CUDA_SUCCESS : driver.cuMipmappedArrayDestroy(driver_mipmapped(array)); });
}

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) { return {x, y, z, w, kind}; }

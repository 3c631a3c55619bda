// Which driver copy or fill does a runtime one become? The direction picks the function; boxes become the driver's
// descriptions with unified addresses.
#include "runtime_driver.h"

using namespace sim_runtime;

namespace {

CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
CUarray driver_array(cudaArray_const_t array) { return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array)); }

CUresult copy(const StreamCalls& calls, void* target, const void* source, size_t bytes, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice: return calls.cuMemcpyHtoD(address_of(target), source, bytes);
    case cudaMemcpyDeviceToHost: return calls.cuMemcpyDtoH(target, address_of(source), bytes);
    case cudaMemcpyDeviceToDevice: return calls.cuMemcpyDtoD(address_of(target), address_of(source), bytes);
    default: return calls.cuMemcpy(address_of(target), address_of(source), bytes);
  }
}

CUresult copy_async(const StreamCalls& calls, void* target, const void* source, size_t bytes, cudaMemcpyKind kind,
                    cudaStream_t stream) {
  switch (kind) {
    case cudaMemcpyHostToDevice: return calls.cuMemcpyHtoDAsync(address_of(target), source, bytes, stream);
    case cudaMemcpyDeviceToHost: return calls.cuMemcpyDtoHAsync(target, address_of(source), bytes, stream);
    case cudaMemcpyDeviceToDevice: return calls.cuMemcpyDtoDAsync(address_of(target), address_of(source), bytes, stream);
    default: return calls.cuMemcpyAsync(address_of(target), address_of(source), bytes, stream);
  }
}

// One end of a two-dimensional copy.
struct Plane {
  const void* pointer = nullptr;
  cudaArray_const_t array = nullptr;
  size_t pitch = 0, x = 0, y = 0;
};

CUDA_MEMCPY2D plane_copy(const Plane& target, const Plane& source, size_t width_bytes, size_t height) {
  CUDA_MEMCPY2D c = {};
  c.dstMemoryType = target.array != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  c.dstDevice = address_of(target.pointer);
  c.dstArray = driver_array(target.array);
  c.dstPitch = target.pitch;
  c.dstXInBytes = target.x;
  c.dstY = target.y;
  c.srcMemoryType = source.array != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  c.srcDevice = address_of(source.pointer);
  c.srcArray = driver_array(source.array);
  c.srcPitch = source.pitch;
  c.srcXInBytes = source.x;
  c.srcY = source.y;
  c.WidthInBytes = width_bytes;
  c.Height = height;
  return c;
}

cudaError_t copy_plane(const StreamCalls& calls, const Plane& target, const Plane& source, size_t width, size_t height) {
  return with_context([&] {
    CUDA_MEMCPY2D c = plane_copy(target, source, width, height);
    return calls.cuMemcpy2D(&c);
  });
}

cudaError_t copy_plane_async(const StreamCalls& calls, const Plane& target, const Plane& source, size_t width, size_t height,
                             cudaStream_t stream) {
  return with_context([&] {
    CUDA_MEMCPY2D c = plane_copy(target, source, width, height);
    return calls.cuMemcpy2DAsync(&c, stream);
  });
}

// Positions and widths along x are in elements where an array takes part, in bytes otherwise.
CUresult element_bytes(const cudaMemcpy3DParms& p, size_t& bytes) {
  bytes = 1;
  cudaArray_const_t array = p.dstArray != nullptr ? p.dstArray : p.srcArray;
  if (array == nullptr) return CUDA_SUCCESS;
  CUDA_ARRAY3D_DESCRIPTOR d;
  if (CUresult error = driver.cuArray3DGetDescriptor(&d, driver_array(array))) return error;
  switch (d.Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: bytes = d.NumChannels; break;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: bytes = 4 * d.NumChannels; break;
    default: bytes = 2 * d.NumChannels; break;
  }
  return CUDA_SUCCESS;
}

CUresult box_copy(const cudaMemcpy3DParms* p, CUDA_MEMCPY3D& c) {
  size_t element;
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = element_bytes(*p, element)) return error;
  c = {};
  c.dstMemoryType = p->dstArray != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  c.dstArray = driver_array(p->dstArray);
  c.dstDevice = address_of(p->dstPtr.ptr);
  c.dstPitch = p->dstPtr.pitch;
  c.dstHeight = p->dstPtr.ysize;
  c.dstXInBytes = p->dstPos.x * (p->dstArray != nullptr ? element : 1);
  c.dstY = p->dstPos.y;
  c.dstZ = p->dstPos.z;
  c.srcMemoryType = p->srcArray != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  c.srcArray = driver_array(p->srcArray);
  c.srcDevice = address_of(p->srcPtr.ptr);
  c.srcPitch = p->srcPtr.pitch;
  c.srcHeight = p->srcPtr.ysize;
  c.srcXInBytes = p->srcPos.x * (p->srcArray != nullptr ? element : 1);
  c.srcY = p->srcPos.y;
  c.srcZ = p->srcPos.z;
  c.WidthInBytes = p->extent.width * element;
  c.Height = p->extent.height;
  c.Depth = p->extent.depth;
  return CUDA_SUCCESS;
}

// Fills a box slice by slice.
template <class FillPlane>
cudaError_t fill_box(cudaPitchedPtr box, cudaExtent extent, FillPlane fill_plane) {
  return with_context([&] {
    for (size_t z = 0; z < extent.depth; z++)
      if (CUresult error = fill_plane(address_of(box.ptr) + z * box.pitch * box.ysize)) return error;
    return CUDA_SUCCESS;
  });
}

unsigned char as_byte(int value) { return static_cast<unsigned char>(value); }

}  // namespace

STREAM_API(cudaMemcpy, _ptds, (void* target, const void* source, size_t bytes, cudaMemcpyKind kind), {
  return with_context([&] { return copy(calls, target, source, bytes, kind); });
})

STREAM_API(cudaMemcpyAsync, _ptsz, (void* target, const void* source, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream), {
  return with_context([&] { return copy_async(calls, target, source, bytes, kind, stream); });
})

// All devices share one address space: the contexts of the ends do not matter.
cudaError_t cudaMemcpyPeer(void* target, int, const void* source, int, size_t bytes) {
  return with_context([&] { return legacy.cuMemcpyDtoD(address_of(target), address_of(source), bytes); });
}

cudaError_t cudaMemcpyPeerAsync(void* target, int, const void* source, int, size_t bytes, cudaStream_t stream) {
  return with_context([&] { return legacy.cuMemcpyDtoDAsync(address_of(target), address_of(source), bytes, stream); });
}

STREAM_API(cudaMemcpy2D, _ptds,
           (void* target, size_t target_pitch, const void* source, size_t source_pitch, size_t width, size_t height,
            cudaMemcpyKind),
           { return copy_plane(calls, {target, nullptr, target_pitch}, {source, nullptr, source_pitch}, width, height); })

STREAM_API(cudaMemcpy2DAsync, _ptsz,
           (void* target, size_t target_pitch, const void* source, size_t source_pitch, size_t width, size_t height,
            cudaMemcpyKind, cudaStream_t stream),
           {
             return copy_plane_async(calls, {target, nullptr, target_pitch}, {source, nullptr, source_pitch}, width, height,
                                     stream);
           })

STREAM_API(cudaMemcpy2DToArray, _ptds,
           (cudaArray_t target, size_t x, size_t y, const void* source, size_t pitch, size_t width, size_t height,
            cudaMemcpyKind),
           { return copy_plane(calls, {nullptr, target, 0, x, y}, {source, nullptr, pitch}, width, height); })

STREAM_API(cudaMemcpy2DToArrayAsync, _ptsz,
           (cudaArray_t target, size_t x, size_t y, const void* source, size_t pitch, size_t width, size_t height,
            cudaMemcpyKind, cudaStream_t stream),
           { return copy_plane_async(calls, {nullptr, target, 0, x, y}, {source, nullptr, pitch}, width, height, stream); })

STREAM_API(cudaMemcpy2DFromArray, _ptds,
           (void* target, size_t pitch, cudaArray_const_t source, size_t x, size_t y, size_t width, size_t height,
            cudaMemcpyKind),
           { return copy_plane(calls, {target, nullptr, pitch}, {nullptr, source, 0, x, y}, width, height); })

STREAM_API(cudaMemcpy2DFromArrayAsync, _ptsz,
           (void* target, size_t pitch, cudaArray_const_t source, size_t x, size_t y, size_t width, size_t height,
            cudaMemcpyKind, cudaStream_t stream),
           { return copy_plane_async(calls, {target, nullptr, pitch}, {nullptr, source, 0, x, y}, width, height, stream); })

STREAM_API(cudaMemcpy3D, _ptds, (const cudaMemcpy3DParms* p), {
  return with_context([&] {
    CUDA_MEMCPY3D c;
    CUresult error = box_copy(p, c);
    return error != CUDA_SUCCESS ? error : calls.cuMemcpy3D(&c);
  });
})

STREAM_API(cudaMemcpy3DAsync, _ptsz, (const cudaMemcpy3DParms* p, cudaStream_t stream), {
  return with_context([&] {
    CUDA_MEMCPY3D c;
    CUresult error = box_copy(p, c);
    return error != CUDA_SUCCESS ? error : calls.cuMemcpy3DAsync(&c, stream);
  });
})

STREAM_API(cudaMemset, _ptds, (void* target, int value, size_t bytes), {
  return with_context([&] { return calls.cuMemsetD8(address_of(target), as_byte(value), bytes); });
})

STREAM_API(cudaMemsetAsync, _ptsz, (void* target, int value, size_t bytes, cudaStream_t stream), {
  return with_context([&] { return calls.cuMemsetD8Async(address_of(target), as_byte(value), bytes, stream); });
})

STREAM_API(cudaMemset2D, _ptds, (void* target, size_t pitch, int value, size_t width, size_t height), {
  return with_context([&] { return calls.cuMemsetD2D8(address_of(target), pitch, as_byte(value), width, height); });
})

STREAM_API(cudaMemset2DAsync, _ptsz,
           (void* target, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream), {
             return with_context([&] {
               return calls.cuMemsetD2D8Async(address_of(target), pitch, as_byte(value), width, height, stream);
             });
           })

STREAM_API(cudaMemset3D, _ptds, (cudaPitchedPtr box, int value, cudaExtent extent), {
  return fill_box(box, extent, [&](CUdeviceptr slice) {
    return calls.cuMemsetD2D8(slice, box.pitch, as_byte(value), extent.width, extent.height);
  });
})

STREAM_API(cudaMemset3DAsync, _ptsz, (cudaPitchedPtr box, int value, cudaExtent extent, cudaStream_t stream), {
  return fill_box(box, extent, [&](CUdeviceptr slice) {
    return calls.cuMemsetD2D8Async(slice, box.pitch, as_byte(value), extent.width, extent.height, stream);
  });
})

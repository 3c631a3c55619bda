// What do copies and fills move? Device memory is host memory: all of them end in memcpy and std::fill, outside the lock.
#include <algorithm>
#include <cstring>

#include "capture.h"
#include "memory.h"

namespace sim {
namespace {

bool known_range(Address address, size_t size_bytes) {
  std::lock_guard guard(machine().lock);
  return covered(address, size_bytes);
}

void* pointer_to(Address address) { return reinterpret_cast<void*>(address); }
Address address_of(const void* pointer) { return reinterpret_cast<Address>(pointer); }

// Which ends of a copy must be memory the driver knows; the others may be any host memory.
enum class Ends { kNone, kTarget, kSource, kBoth };

CUresult copy(const char* name, Address target, Address source, size_t size_bytes, Ends checked, CUstream stream) {
  return stream_call(name, stream, CU_GRAPH_NODE_TYPE_MEMCPY, [=] {
    if (size_bytes == 0) return CUDA_SUCCESS;
    if (target == 0 || source == 0) return CUDA_ERROR_INVALID_VALUE;
    bool check_target = checked == Ends::kTarget || checked == Ends::kBoth;
    bool check_source = checked == Ends::kSource || checked == Ends::kBoth;
    if (check_target && !known_range(target, size_bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (check_source && !known_range(source, size_bytes)) return CUDA_ERROR_INVALID_VALUE;
    std::memmove(pointer_to(target), pointer_to(source), size_bytes);
    return CUDA_SUCCESS;
  });
}

// One end of a copy of rows.
struct Side {
  char* start = nullptr;
  size_t pitch_bytes = 0;
  size_t slice_bytes = 0;
};

// The end that one half of a CUDA_MEMCPY2D or 3D describes, or one with a null start if the description makes no sense.
Side side(CUmemorytype type, const void* host, Address device, CUarray array, size_t pitch, size_t height, size_t x, size_t y,
          size_t z) {
  Side s;
  switch (type) {
    case CU_MEMORYTYPE_HOST: s.start = static_cast<char*>(const_cast<void*>(host)); break;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED: s.start = static_cast<char*>(pointer_to(device)); break;
    case CU_MEMORYTYPE_ARRAY:
      if (array == nullptr) return {};
      s.start = static_cast<char*>(pointer_to(array->address));
      pitch = array->row_bytes;
      height = std::max<size_t>(array->descriptor.Height, 1);
      break;
    default: return {};
  }
  if (s.start == nullptr) return {};
  s.pitch_bytes = pitch;
  s.slice_bytes = pitch * height;
  s.start += z * s.slice_bytes + y * pitch + x;
  return s;
}

CUresult copy_rows(Side target, Side source, size_t width_bytes, size_t height, size_t depth) {
  if (target.start == nullptr || source.start == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (height > 1 && (target.pitch_bytes < width_bytes || source.pitch_bytes < width_bytes)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t z = 0; z < depth; z++)
    for (size_t y = 0; y < height; y++)
      std::memmove(target.start + z * target.slice_bytes + y * target.pitch_bytes,
                   source.start + z * source.slice_bytes + y * source.pitch_bytes, width_bytes);
  return CUDA_SUCCESS;
}

CUresult copy_2d(const char* name, const CUDA_MEMCPY2D* c, CUstream stream) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return stream_call(name, stream, CU_GRAPH_NODE_TYPE_MEMCPY, [c = *c] {
    Side target = side(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, c.dstPitch, 1, c.dstXInBytes,
                                      c.dstY, 0);
    Side source = side(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, c.srcPitch, 1, c.srcXInBytes,
                                      c.srcY, 0);
    return copy_rows(target, source, c.WidthInBytes, c.Height, 1);
  });
}

CUresult copy_3d(const char* name, const CUDA_MEMCPY3D* c, CUstream stream) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return stream_call(name, stream, CU_GRAPH_NODE_TYPE_MEMCPY, [c = *c] {
    Side target = side(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, c.dstPitch, c.dstHeight,
                                      c.dstXInBytes, c.dstY, c.dstZ);
    Side source = side(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, c.srcPitch, c.srcHeight,
                                      c.srcXInBytes, c.srcY, c.srcZ);
    return copy_rows(target, source, c.WidthInBytes, c.Height, c.Depth);
  });
}

template <class T>
CUresult fill(const char* name, Address target, T value, size_t count, CUstream stream) {
  return stream_call(name, stream, CU_GRAPH_NODE_TYPE_MEMSET, [=] {
    if (count == 0) return CUDA_SUCCESS;
    if (target % sizeof(T) != 0 || !known_range(target, count * sizeof(T))) return CUDA_ERROR_INVALID_VALUE;
    std::fill_n(static_cast<T*>(pointer_to(target)), count, value);
    return CUDA_SUCCESS;
  });
}

template <class T>
CUresult fill_2d(const char* name, Address target, size_t pitch, T value, size_t width, size_t height, CUstream stream) {
  return stream_call(name, stream, CU_GRAPH_NODE_TYPE_MEMSET, [=] {
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    if (target % sizeof(T) != 0 || (height > 1 && pitch < width * sizeof(T))) return CUDA_ERROR_INVALID_VALUE;
    if (!known_range(target, pitch * (height - 1) + width * sizeof(T))) return CUDA_ERROR_INVALID_VALUE;
    for (size_t y = 0; y < height; y++) std::fill_n(static_cast<T*>(pointer_to(target + y * pitch)), width, value);
    return CUDA_SUCCESS;
  });
}

}  // namespace
}  // namespace sim

using namespace sim;

CUresult cuMemcpy(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  return copy(__func__, target, source, bytes, Ends::kNone, nullptr);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void* source, size_t bytes) {
  return copy(__func__, target, address_of(source), bytes, Ends::kTarget, nullptr);
}
CUresult cuMemcpyDtoH_v2(void* target, CUdeviceptr source, size_t bytes) {
  return copy(__func__, address_of(target), source, bytes, Ends::kSource, nullptr);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  return copy(__func__, target, source, bytes, Ends::kBoth, nullptr);
}
CUresult cuMemcpyPeer(CUdeviceptr target, CUcontext, CUdeviceptr source, CUcontext, size_t bytes) {
  return copy(__func__, target, source, bytes, Ends::kBoth, nullptr);
}

CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return copy(__func__, target, source, bytes, Ends::kNone, stream);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void* source, size_t bytes, CUstream stream) {
  return copy(__func__, target, address_of(source), bytes, Ends::kTarget, stream);
}
CUresult cuMemcpyDtoHAsync_v2(void* target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return copy(__func__, address_of(target), source, bytes, Ends::kSource, stream);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return copy(__func__, target, source, bytes, Ends::kBoth, stream);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr target, CUcontext, CUdeviceptr source, CUcontext, size_t bytes, CUstream stream) {
  return copy(__func__, target, source, bytes, Ends::kBoth, stream);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* c) { return copy_2d(__func__, c, nullptr); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* c) { return copy_2d(__func__, c, nullptr); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* c, CUstream stream) { return copy_2d(__func__, c, stream); }
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* c) { return copy_3d(__func__, c, nullptr); }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* c, CUstream stream) { return copy_3d(__func__, c, stream); }

CUresult cuMemsetD8_v2(CUdeviceptr target, unsigned char value, size_t count) {
  return fill(__func__, target, value, count, nullptr);
}
CUresult cuMemsetD16_v2(CUdeviceptr target, unsigned short value, size_t count) {
  return fill(__func__, target, value, count, nullptr);
}
CUresult cuMemsetD32_v2(CUdeviceptr target, unsigned int value, size_t count) {
  return fill(__func__, target, value, count, nullptr);
}
CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, CUstream stream) {
  return fill(__func__, target, value, count, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr target, unsigned short value, size_t count, CUstream stream) {
  return fill(__func__, target, value, count, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr target, unsigned int value, size_t count, CUstream stream) {
  return fill(__func__, target, value, count, stream);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr target, size_t pitch, unsigned char value, size_t width, size_t height) {
  return fill_2d(__func__, target, pitch, value, width, height, nullptr);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr target, size_t pitch, unsigned short value, size_t width, size_t height) {
  return fill_2d(__func__, target, pitch, value, width, height, nullptr);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr target, size_t pitch, unsigned int value, size_t width, size_t height) {
  return fill_2d(__func__, target, pitch, value, width, height, nullptr);
}
CUresult cuMemsetD2D8Async(CUdeviceptr target, size_t pitch, unsigned char value, size_t width, size_t height, CUstream s) {
  return fill_2d(__func__, target, pitch, value, width, height, s);
}
CUresult cuMemsetD2D16Async(CUdeviceptr target, size_t pitch, unsigned short value, size_t width, size_t height, CUstream s) {
  return fill_2d(__func__, target, pitch, value, width, height, s);
}
CUresult cuMemsetD2D32Async(CUdeviceptr target, size_t pitch, unsigned int value, size_t width, size_t height, CUstream s) {
  return fill_2d(__func__, target, pitch, value, width, height, s);
}

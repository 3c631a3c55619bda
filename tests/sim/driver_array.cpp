// What do CUDA arrays and mipmapped arrays take and hold?
#include "array.h"

#include "capture.h"
#include "memory.h"

namespace sim {
namespace {

size_t component_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4;
    default: return 0;
  }
}

size_t row_bytes(const CUDA_ARRAY3D_DESCRIPTOR& d) { return d.Width * element_bytes(d); }

size_t storage_bytes(const CUDA_ARRAY3D_DESCRIPTOR& d) { return round_up(packed_bytes(d), kTileBytes); }

bool mapped_later(const CUDA_ARRAY3D_DESCRIPTOR& d) { return is_deferred(d) || is_sparse(d); }

std::unique_ptr<CUarray_st> describe(CUcontext context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  auto array = std::make_unique<CUarray_st>();
  array->context = context;
  array->descriptor = descriptor;
  array->row_bytes = row_bytes(descriptor);
  array->size_bytes = storage_bytes(descriptor);
  return array;
}

CUresult create(const char* name, CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  return context_call(name, [&](CUctx_st& context) {
    if (out == nullptr || !valid(descriptor)) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = forbid_during_capture()) return error;
    auto array = describe(&context, descriptor);
    if (!mapped_later(descriptor)) {
      std::optional<Address> address = take_device_memory(context.device, array->size_bytes);
      if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
      array->address = *address;
    }
    *out = machine().arrays.add(std::move(array));
    return CUDA_SUCCESS;
  });
}

bool known(CUarray array) { return machine().arrays.contains(array) || is_level(array); }

CUDA_ARRAY3D_DESCRIPTOR level_descriptor(CUDA_ARRAY3D_DESCRIPTOR d, unsigned level) {
  d.Width = std::max<size_t>(d.Width >> level, 1);
  if (d.Height != 0) d.Height = std::max<size_t>(d.Height >> level, 1);
  if (d.Depth != 0 && !is_layered(d)) d.Depth = std::max<size_t>(d.Depth >> level, 1);
  return d;
}

// One piece of memory for all levels, unless memory is mapped later.
CUresult place_levels(CUmipmappedArray_st& mipmapped, bool later) {
  if (later) return CUDA_SUCCESS;
  std::optional<Address> address = take_device_memory(mipmapped.context->device, mipmapped.size_bytes);
  if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
  mipmapped.address = *address;
  for (Address next = *address; const auto& level : mipmapped.levels) {
    level->address = next;
    next += level->size_bytes;
  }
  return CUDA_SUCCESS;
}

}  // namespace

bool valid(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  bool channels = d.NumChannels == 1 || d.NumChannels == 2 || d.NumChannels == 4;
  return channels && component_bytes(d.Format) != 0 && d.Width != 0;
}

size_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR& d) { return component_bytes(d.Format) * d.NumChannels; }

size_t packed_bytes(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  return row_bytes(d) * std::max<size_t>(d.Height, 1) * std::max<size_t>(d.Depth, 1);
}

std::unique_ptr<CUmipmappedArray_st> describe_levels(CUcontext context, const CUDA_ARRAY3D_DESCRIPTOR& d, unsigned level_count) {
  if (!valid(d) || level_count == 0 || level_count > 32) return nullptr;
  auto mipmapped = std::make_unique<CUmipmappedArray_st>();
  mipmapped->context = context;
  for (unsigned level = 0; level < level_count; level++) {
    mipmapped->levels.push_back(describe(context, level_descriptor(d, level)));
    mipmapped->size_bytes += mipmapped->levels.back()->size_bytes;
  }
  return mipmapped;
}

bool is_level(CUarray array) {
  bool found = false;
  machine().mipmapped_arrays.for_each([&](const CUmipmappedArray_st& mipmapped) {
    for (const auto& level : mipmapped.levels) found |= level.get() == array;
  });
  return found;
}

}  // namespace sim

using namespace sim;

CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* d) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  if (d != nullptr) descriptor = {d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
  return create(__func__, out, descriptor);
}

CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* d) {
  return create(__func__, out, d != nullptr ? *d : CUDA_ARRAY3D_DESCRIPTOR{});
}

CUresult cuArrayDestroy(CUarray array) {
  return driver_call(__func__, [&] {
    if (is_level(array)) return CUDA_SUCCESS;  // borrowed: nothing to free, and the real driver does not object
    if (!machine().arrays.contains(array)) return CUDA_ERROR_INVALID_HANDLE;
    if (array->address != 0) give_device_memory(array->context->device, array->address, array->size_bytes);
    machine().arrays.remove(array);
    return CUDA_SUCCESS;
  });
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray array) {
  return driver_call(__func__, [&] {
    if (!known(array)) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_ARRAY3D_DESCRIPTOR& d = array->descriptor;
    *out = {d.Width, d.Height, d.Format, d.NumChannels};
    return CUDA_SUCCESS;
  });
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray array) {
  return driver_call(__func__, [&] {
    if (!known(array)) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = array->descriptor;
    return CUDA_SUCCESS;
  });
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUarray array, CUdevice device) {
  return driver_call(__func__, [&] {
    if (!known(array)) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr || !is_deferred(array->descriptor)) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *out = {};
    out->size = array->size_bytes;
    out->alignment = kTileBytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* d, unsigned int level_count) {
  return context_call(__func__, [&](CUctx_st& context) {
    if (out == nullptr || d == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto mipmapped = describe_levels(&context, *d, level_count);
    if (mipmapped == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = forbid_during_capture()) return error;
    if (CUresult error = place_levels(*mipmapped, mapped_later(*d))) return error;
    *out = machine().mipmapped_arrays.add(std::move(mipmapped));
    return CUDA_SUCCESS;
  });
}

CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray mipmapped, unsigned int level) {
  return driver_call(__func__, [&] {
    if (!machine().mipmapped_arrays.contains(mipmapped)) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr || level >= mipmapped->levels.size()) return CUDA_ERROR_INVALID_VALUE;
    *out = mipmapped->levels[level].get();
    return CUDA_SUCCESS;
  });
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmapped) {
  return driver_call(__func__, [&] {
    if (!machine().mipmapped_arrays.contains(mipmapped)) return CUDA_ERROR_INVALID_HANDLE;
    if (mipmapped->address != 0)
      give_device_memory(mipmapped->context->device, mipmapped->address, mipmapped->size_bytes);
    machine().mipmapped_arrays.remove(mipmapped);
    return CUDA_SUCCESS;
  });
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUmipmappedArray mipmapped,
                                               CUdevice device) {
  return driver_call(__func__, [&] {
    if (!machine().mipmapped_arrays.contains(mipmapped)) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr || !is_deferred(mipmapped->levels[0]->descriptor)) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *out = {};
    out->size = mipmapped->size_bytes;
    out->alignment = kTileBytes;
    return CUDA_SUCCESS;
  });
}

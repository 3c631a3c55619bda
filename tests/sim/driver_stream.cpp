// What do streams and events do where all work is done at once? They are created, waited for, and destroyed; waiting is where
// pools give memory back.
#include "capture.h"
#include "pool.h"

namespace sim {

std::unique_ptr<CUstream_st> make_stream(CUcontext context, unsigned flags, int priority) {
  auto stream = std::make_unique<CUstream_st>();
  stream->context = context;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = machine().next_stream_id++;
  return stream;
}

CUstream find_stream(CUctx_st& context, CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return context.default_stream.get();
  if (handle == CU_STREAM_PER_THREAD) {
    std::unique_ptr<CUstream_st>& stream = context.thread_streams[std::this_thread::get_id()];
    if (!stream) stream = make_stream(&context, CU_STREAM_NON_BLOCKING, 0);
    return stream.get();
  }
  return machine().streams.contains(handle) ? handle : nullptr;
}

namespace {

CUresult create_stream(const char* name, CUstream* out, unsigned flags, int priority) {
  return context_call(name, [&](CUctx_st& context) {
    if (out == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) return CUDA_ERROR_INVALID_VALUE;
    *out = machine().streams.add(make_stream(&context, flags, priority));
    return CUDA_SUCCESS;
  });
}

CUresult destroy_stream(const char* name, CUstream stream) {
  return driver_call(name, [&] {
    if (!machine().streams.contains(stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capturing() && stream->capture->origin == stream) {
      stream->capture->ended = true;
      std::erase(machine().captures, stream->capture);
    }
    machine().streams.remove(stream);
    return CUDA_SUCCESS;
  });
}

// `body` sees the stream behind any handle, default ones included.
template <class Body>
CUresult on_stream(const char* name, CUstream handle, Body&& body) {
  return context_call(name, [&](CUctx_st& context) {
    CUstream stream = find_stream(context, handle);
    return stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : static_cast<CUresult>(body(*stream));
  });
}

CUresult record(const char* name, CUevent event, CUstream handle) {
  return on_stream(name, handle, [&](CUstream_st& stream) {
    if (!machine().events.contains(event)) return CUDA_ERROR_INVALID_HANDLE;
    if (stream.capturing()) {
      event->capture = stream.capture;
      event->captured_in = &stream;
      return CUDA_SUCCESS;
    }
    event->capture = nullptr;
    event->recorded = true;
    event->recorded_at = std::chrono::steady_clock::now();
    return CUDA_SUCCESS;
  });
}

// Waiting for a captured event makes a stream part of its capture, and whom it waited for is joined again.
void join_capture(CUstream_st& stream, const CUevent_st& event) {
  CaptureSequence& capture = *event.capture;
  capture.unjoined.erase(event.captured_in);
  if (capture.origin != &stream) capture.unjoined.insert(&stream);
  stream.capture = event.capture;
}

CUresult destroy_event(const char* name, CUevent event) {
  return driver_call(name, [&] { return machine().events.remove(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; });
}

CUresult elapsed(const char* name, float* milliseconds, CUevent start, CUevent end) {
  return driver_call(name, [&] {
    if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (CUevent event : {start, end})
      if (!machine().events.contains(event) || (event->flags & CU_EVENT_DISABLE_TIMING) != 0 || !event->recorded)
        return CUDA_ERROR_INVALID_HANDLE;
    *milliseconds = std::chrono::duration<float, std::milli>(end->recorded_at - start->recorded_at).count();
    return CUDA_SUCCESS;
  });
}

CUresult synchronize_event(const char* name, CUevent event) {
  return driver_call(name, [&] {
    if (!machine().events.contains(event)) return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
    return CUDA_SUCCESS;
  });
}

}  // namespace
}  // namespace sim

using namespace sim;

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) { return create_stream(__func__, stream, flags, 0); }

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  return create_stream(__func__, stream, flags, priority);
}

CUresult cuStreamDestroy(CUstream stream) { return destroy_stream(__func__, stream); }
CUresult cuStreamDestroy_v2(CUstream stream) { return destroy_stream(__func__, stream); }

CUresult cuStreamSynchronize(CUstream handle) {
  return on_stream(__func__, handle, [](CUstream_st& stream) {
    if (stream.capturing()) {
      stream.capture->invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    trim_pools_to_threshold(stream.context->device);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return on_stream(__func__, handle, [](CUstream_st& stream) {
    return stream.capturing() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
  });
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int) {
  return on_stream(__func__, handle, [&](CUstream_st& stream) {
    if (!machine().events.contains(event)) return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture == nullptr || event->capture->ended) return CUDA_SUCCESS;
    if (stream.capturing() && stream.capture != event->capture) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    join_capture(stream, *event);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return on_stream(__func__, handle, [&](CUstream_st& stream) {
    if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *priority = stream.priority;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  return on_stream(__func__, handle, [&](CUstream_st& stream) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = stream.flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return on_stream(__func__, handle, [&](CUstream_st& stream) {
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *id = stream.id;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  return on_stream(__func__, handle, [&](CUstream_st& stream) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = stream.context->device;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return on_stream(__func__, handle, [&](CUstream_st& stream) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = stream.context;
    return CUDA_SUCCESS;
  });
}

CUresult cuEventCreate(CUevent* out, unsigned int flags) {
  return context_call(__func__, [&](CUctx_st& context) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto event = std::make_unique<CUevent_st>();
    event->context = &context;
    event->flags = flags;
    *out = machine().events.add(std::move(event));
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy(CUevent event) { return destroy_event(__func__, event); }
CUresult cuEventDestroy_v2(CUevent event) { return destroy_event(__func__, event); }
CUresult cuEventRecord(CUevent event, CUstream stream) { return record(__func__, event, stream); }
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int) { return record(__func__, event, stream); }
CUresult cuEventQuery(CUevent event) { return synchronize_event(__func__, event); }

CUresult cuEventSynchronize(CUevent event) {
  CUresult result = synchronize_event(__func__, event);
  if (result != CUDA_SUCCESS) return result;
  std::lock_guard guard(machine().lock);
  if (machine().events.contains(event)) trim_pools_to_threshold(event->context->device);
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return elapsed(__func__, milliseconds, start, end);
}
CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return elapsed(__func__, milliseconds, start, end);
}

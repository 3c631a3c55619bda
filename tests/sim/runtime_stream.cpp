// How do the runtime's streams and events map to the driver's? They are the same handles.
#include "runtime_driver.h"

using namespace sim_runtime;

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return with_context([&] { return driver.cuStreamCreate(stream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return with_context([&] { return driver.cuStreamCreateWithPriority(stream, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return with_context([&] { return driver.cuStreamDestroy(stream); });
}

STREAM_API(cudaStreamSynchronize, _ptsz, (cudaStream_t stream),
           { return with_context([&] { return calls.cuStreamSynchronize(stream); }); })
STREAM_API(cudaStreamQuery, _ptsz, (cudaStream_t stream),
           { return with_context([&] { return calls.cuStreamQuery(stream); }); })
STREAM_API(cudaStreamWaitEvent, _ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
           { return with_context([&] { return calls.cuStreamWaitEvent(stream, event, flags); }); })
STREAM_API(cudaStreamGetPriority, _ptsz, (cudaStream_t stream, int* priority),
           { return with_context([&] { return calls.cuStreamGetPriority(stream, priority); }); })
STREAM_API(cudaStreamGetFlags, _ptsz, (cudaStream_t stream, unsigned int* flags),
           { return with_context([&] { return calls.cuStreamGetFlags(stream, flags); }); })
STREAM_API(cudaStreamGetId, _ptsz, (cudaStream_t stream, unsigned long long* id),
           { return with_context([&] { return calls.cuStreamGetId(stream, id); }); })
STREAM_API(cudaStreamGetDevice, _ptsz, (cudaStream_t stream, int* device),
           { return with_context([&] { return calls.cuStreamGetDevice(stream, device); }); })

// A cudaStreamCallback_t differs from a CUstreamCallback only in the enum that names its error.
STREAM_API(cudaStreamAddCallback, _ptsz, (cudaStream_t stream, cudaStreamCallback_t callback, void* argument, unsigned int flags), {
  return with_context([&] {
    return calls.cuStreamAddCallback(stream, reinterpret_cast<CUstreamCallback>(callback), argument, flags);
  });
})
STREAM_API(cudaLaunchHostFunc, _ptsz, (cudaStream_t stream, cudaHostFn_t function, void* argument),
           { return with_context([&] { return calls.cuLaunchHostFunc(stream, function, argument); }); })

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return with_context([&] { return driver.cuEventCreate(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return with_context([&] { return driver.cuEventDestroy(event); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return with_context([&] { return driver.cuEventQuery(event); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return with_context([&] { return driver.cuEventSynchronize(event); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return with_context([&] { return driver.cuEventElapsedTime(milliseconds, start, end); });
}

STREAM_API(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream),
           { return with_context([&] { return calls.cuEventRecord(event, stream); }); })
STREAM_API(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
           { return with_context([&] { return calls.cuEventRecordWithFlags(event, stream, flags); }); })

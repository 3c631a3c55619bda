// How do the _ptsz and _ptds variants differ? The null stream is the calling thread's own instead of the legacy one. Each is
// its base function behind that substitution. For a copy that waits the difference cannot be seen here.
#include "settings.h"

namespace {

CUstream own(CUstream stream) { return stream == nullptr ? CU_STREAM_PER_THREAD : stream; }

}  // namespace

#define PER_THREAD(symbol, base, PARAMETERS, ...)                               \
  CUresult symbol PARAMETERS {                                                  \
    if (CUresult failure = sim::requested_failure(__func__)) return failure;    \
    return base(__VA_ARGS__);                                                   \
  }

PER_THREAD(cuMemAllocAsync_ptsz, cuMemAllocAsync, (CUdeviceptr * p, size_t n, CUstream s), p, n, own(s))
PER_THREAD(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, (CUdeviceptr * p, size_t n, CUmemoryPool pool, CUstream s), p, n,
           pool, own(s))
PER_THREAD(cuMemFreeAsync_ptsz, cuMemFreeAsync, (CUdeviceptr p, CUstream s), p, own(s))

PER_THREAD(cuMemMapArrayAsync_ptsz, cuMemMapArrayAsync, (CUarrayMapInfo * list, unsigned n, CUstream s), list, n, own(s))

PER_THREAD(cuMemcpy_ptds, cuMemcpy, (CUdeviceptr d, CUdeviceptr s, size_t n), d, s, n)
PER_THREAD(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD_v2, (CUdeviceptr d, const void* s, size_t n), d, s, n)
PER_THREAD(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH_v2, (void* d, CUdeviceptr s, size_t n), d, s, n)
PER_THREAD(cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD_v2, (CUdeviceptr d, CUdeviceptr s, size_t n), d, s, n)
PER_THREAD(cuMemcpyPeer_ptds, cuMemcpyPeer, (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n), d, dc, s, sc, n)
PER_THREAD(cuMemcpy2D_v2_ptds, cuMemcpy2D_v2, (const CUDA_MEMCPY2D* c), c)
PER_THREAD(cuMemcpy2DUnaligned_v2_ptds, cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D* c), c)
PER_THREAD(cuMemcpy3D_v2_ptds, cuMemcpy3D_v2, (const CUDA_MEMCPY3D* c), c)
PER_THREAD(cuMemcpyAsync_ptsz, cuMemcpyAsync, (CUdeviceptr d, CUdeviceptr s, size_t n, CUstream t), d, s, n, own(t))
PER_THREAD(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync_v2, (CUdeviceptr d, const void* s, size_t n, CUstream t), d, s, n, own(t))
PER_THREAD(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync_v2, (void* d, CUdeviceptr s, size_t n, CUstream t), d, s, n, own(t))
PER_THREAD(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync_v2, (CUdeviceptr d, CUdeviceptr s, size_t n, CUstream t), d, s, n, own(t))
PER_THREAD(cuMemcpyPeerAsync_ptsz, cuMemcpyPeerAsync,
           (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n, CUstream t), d, dc, s, sc, n, own(t))
PER_THREAD(cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D* c, CUstream t), c, own(t))
PER_THREAD(cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D* c, CUstream t), c, own(t))

PER_THREAD(cuMemsetD8_v2_ptds, cuMemsetD8_v2, (CUdeviceptr p, unsigned char v, size_t n), p, v, n)
PER_THREAD(cuMemsetD16_v2_ptds, cuMemsetD16_v2, (CUdeviceptr p, unsigned short v, size_t n), p, v, n)
PER_THREAD(cuMemsetD32_v2_ptds, cuMemsetD32_v2, (CUdeviceptr p, unsigned v, size_t n), p, v, n)
PER_THREAD(cuMemsetD2D8_v2_ptds, cuMemsetD2D8_v2, (CUdeviceptr p, size_t pitch, unsigned char v, size_t w, size_t h), p, pitch, v, w, h)
PER_THREAD(cuMemsetD2D16_v2_ptds, cuMemsetD2D16_v2, (CUdeviceptr p, size_t pitch, unsigned short v, size_t w, size_t h), p, pitch, v,
           w, h)
PER_THREAD(cuMemsetD2D32_v2_ptds, cuMemsetD2D32_v2, (CUdeviceptr p, size_t pitch, unsigned v, size_t w, size_t h), p, pitch, v, w, h)
PER_THREAD(cuMemsetD8Async_ptsz, cuMemsetD8Async, (CUdeviceptr p, unsigned char v, size_t n, CUstream s), p, v, n, own(s))
PER_THREAD(cuMemsetD16Async_ptsz, cuMemsetD16Async, (CUdeviceptr p, unsigned short v, size_t n, CUstream s), p, v, n, own(s))
PER_THREAD(cuMemsetD32Async_ptsz, cuMemsetD32Async, (CUdeviceptr p, unsigned v, size_t n, CUstream s), p, v, n, own(s))
PER_THREAD(cuMemsetD2D8Async_ptsz, cuMemsetD2D8Async, (CUdeviceptr p, size_t pitch, unsigned char v, size_t w, size_t h, CUstream s),
           p, pitch, v, w, h, own(s))
PER_THREAD(cuMemsetD2D16Async_ptsz, cuMemsetD2D16Async,
           (CUdeviceptr p, size_t pitch, unsigned short v, size_t w, size_t h, CUstream s), p, pitch, v, w, h, own(s))
PER_THREAD(cuMemsetD2D32Async_ptsz, cuMemsetD2D32Async, (CUdeviceptr p, size_t pitch, unsigned v, size_t w, size_t h, CUstream s), p,
           pitch, v, w, h, own(s))

PER_THREAD(cuStreamSynchronize_ptsz, cuStreamSynchronize, (CUstream s), own(s))
PER_THREAD(cuStreamQuery_ptsz, cuStreamQuery, (CUstream s), own(s))
PER_THREAD(cuStreamWaitEvent_ptsz, cuStreamWaitEvent, (CUstream s, CUevent e, unsigned f), own(s), e, f)
PER_THREAD(cuStreamGetPriority_ptsz, cuStreamGetPriority, (CUstream s, int* p), own(s), p)
PER_THREAD(cuStreamGetFlags_ptsz, cuStreamGetFlags, (CUstream s, unsigned* f), own(s), f)
PER_THREAD(cuStreamGetId_ptsz, cuStreamGetId, (CUstream s, unsigned long long* id), own(s), id)
PER_THREAD(cuStreamGetDevice_ptsz, cuStreamGetDevice, (CUstream s, CUdevice* d), own(s), d)
PER_THREAD(cuStreamGetCtx_ptsz, cuStreamGetCtx, (CUstream s, CUcontext* c), own(s), c)
PER_THREAD(cuStreamAddCallback_ptsz, cuStreamAddCallback, (CUstream s, CUstreamCallback c, void* a, unsigned f), own(s), c, a, f)
PER_THREAD(cuStreamBeginCapture_ptsz, cuStreamBeginCapture, (CUstream s), own(s))
PER_THREAD(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2, (CUstream s, CUstreamCaptureMode m), own(s), m)
PER_THREAD(cuStreamEndCapture_ptsz, cuStreamEndCapture, (CUstream s, CUgraph* g), own(s), g)
PER_THREAD(cuStreamIsCapturing_ptsz, cuStreamIsCapturing, (CUstream s, CUstreamCaptureStatus* status), own(s), status)
PER_THREAD(cuStreamGetCaptureInfo_v2_ptsz, cuStreamGetCaptureInfo_v2,
           (CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* g, const CUgraphNode** d, size_t* n), own(s), status, id,
           g, d, n)
PER_THREAD(cuStreamGetCaptureInfo_v3_ptsz, cuStreamGetCaptureInfo_v3,
           (CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* g, const CUgraphNode** d, const CUgraphEdgeData** e,
            size_t* n),
           own(s), status, id, g, d, e, n)

PER_THREAD(cuEventRecord_ptsz, cuEventRecord, (CUevent e, CUstream s), e, own(s))
PER_THREAD(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags, (CUevent e, CUstream s, unsigned f), e, own(s), f)
PER_THREAD(cuGraphLaunch_ptsz, cuGraphLaunch, (CUgraphExec g, CUstream s), g, own(s))
PER_THREAD(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams,
           (CUgraphExec * e, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS* p), e, g, p)
PER_THREAD(cuLaunchHostFunc_ptsz, cuLaunchHostFunc, (CUstream s, CUhostFn f, void* a), own(s), f, a)
PER_THREAD(cuLaunchKernel_ptsz, cuLaunchKernel,
           (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned m, CUstream s, void** p,
            void** x),
           f, gx, gy, gz, bx, by, bz, m, own(s), p, x)
PER_THREAD(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel,
           (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned m, CUstream s, void** p),
           f, gx, gy, gz, bx, by, bz, m, own(s), p)

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  if (CUresult failure = sim::requested_failure(__func__)) return failure;
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUlaunchConfig copy = *config;
  copy.hStream = own(copy.hStream);
  return cuLaunchKernelEx(&copy, function, parameters, extra);
}

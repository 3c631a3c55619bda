// How does a stream capture begin, forbid, collect and end?
#include "capture.h"

namespace sim {
namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult begin(const char* name, CUstream handle, CUstreamCaptureMode mode) {
  return context_call(name, [&](CUctx_st& context) {
    CUstream stream = find_stream(context, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->legacy_default) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capturing()) return CUDA_ERROR_ILLEGAL_STATE;
    auto sequence = std::make_shared<CaptureSequence>();
    sequence->owned_graph = std::make_unique<CUgraph_st>();
    sequence->graph = sequence->owned_graph.get();
    sequence->origin = stream;
    sequence->mode = mode;
    sequence->thread = std::this_thread::get_id();
    sequence->id = machine().next_capture_id++;
    machine().captures.push_back(sequence);
    stream->capture = std::move(sequence);
    return CUDA_SUCCESS;
  });
}

bool forbids(const CaptureSequence& capture) {
  if (capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (capture.thread == std::this_thread::get_id()) return true;
  return capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUstreamCaptureStatus status_of(const CUstream_st& stream) {
  if (!stream.capturing()) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult capture_info(const char* name, CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                      size_t* dependency_count) {
  return context_call(name, [&](CUctx_st& context) {
    CUstream stream = find_stream(context, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *status = status_of(*stream);
    if (dependency_count != nullptr) *dependency_count = 0;
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
    if (id != nullptr) *id = stream->capture->id;
    if (graph != nullptr) *graph = stream->capture->graph;
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult forbid_during_capture() {
  if (machine().captures.empty() || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  for (const auto& capture : machine().captures) {
    if (!forbids(*capture)) continue;
    capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

void capture_work(CUstream_st& stream, CUgraphNodeType type, std::function<CUresult()> work) {
  add_node(*stream.capture->graph, type, std::move(work));
}

CUresult capture_allocation(CUstream_st& stream, int device, size_t size_bytes, CUdeviceptr& out) {
  CUgraphNode node;
  if (CUresult error = add_allocation_node(*stream.capture->graph, device, size_bytes, node)) return error;
  out = node->address;
  return CUDA_SUCCESS;
}

CUresult capture_free(CUstream_st& stream, CUdeviceptr address) {
  CUgraphNode node;
  return add_free_node(*stream.capture->graph, address, node);
}

}  // namespace sim

using namespace sim;

CUresult cuStreamBeginCapture(CUstream stream) { return begin(__func__, stream, CU_STREAM_CAPTURE_MODE_GLOBAL); }

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) { return begin(__func__, stream, mode); }

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return context_call(__func__, [&](CUctx_st& context) {
    CUstream stream = find_stream(context, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!stream->capturing()) return CUDA_ERROR_ILLEGAL_STATE;
    std::shared_ptr<CaptureSequence> capture = stream->capture;
    if (capture->origin != stream) {
      capture->invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id())
      return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    capture->ended = true;
    std::erase(machine().captures, capture);
    stream->capture = nullptr;
    *graph = nullptr;
    if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!capture->unjoined.empty()) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    *graph = machine().graphs.add(std::move(capture->owned_graph));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return capture_info(__func__, handle, status, nullptr, nullptr, nullptr);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, size_t* count) {
  if (dependencies != nullptr) *dependencies = nullptr;
  return capture_info(__func__, handle, status, id, graph, count);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count) {
  if (dependencies != nullptr) *dependencies = nullptr;
  if (edges != nullptr) *edges = nullptr;
  return capture_info(__func__, handle, status, id, graph, count);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return driver_call(__func__, [&] {
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::swap(*mode, thread_mode);
    return CUDA_SUCCESS;
  });
}

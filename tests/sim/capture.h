// What becomes of work while its stream is capturing? Used under the machine's lock but where noted.
#pragma once

#include "handles.h"

namespace sim {

// The stream behind a handle, default streams included; null if there is none.
CUstream find_stream(CUctx_st& context, CUstream handle);
std::unique_ptr<CUstream_st> make_stream(CUcontext context, unsigned flags, int priority);

// A graph node instead of an allocation: `out` is an address that holds memory only while the graph's launches do.
CUresult capture_allocation(CUstream_st& stream, int device, size_t size_bytes, CUdeviceptr& out);
CUresult capture_free(CUstream_st& stream, CUdeviceptr address);
void capture_work(CUstream_st& stream, CUgraphNodeType type, std::function<CUresult()> work);

// A finished graph, or the one of a running capture.
bool known_graph(CUgraph graph);
CUgraphNode add_node(CUgraph_st& graph, CUgraphNodeType type, std::function<CUresult()> work);
CUresult add_allocation_node(CUgraph_st& graph, int device, size_t size_bytes, CUgraphNode& node);
CUresult add_free_node(CUgraph_st& graph, CUdeviceptr address, CUgraphNode& node);

// cuMemAlloc and its like are forbidden while certain captures run, and break them (CUstreamCaptureMode in the manual).
CUresult forbid_during_capture();

// What every stream-ordered function does: `work` runs now, without the lock, or becomes a node of the capture's graph.
template <class Work>
CUresult stream_call(const char* name, CUstream handle, CUgraphNodeType type, Work work) {
  bool captured = false;
  CUresult result = context_call(name, [&](CUctx_st& context) {
    CUstream stream = find_stream(context, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    captured = stream->capturing();
    if (captured) capture_work(*stream, type, work);
    return CUDA_SUCCESS;
  });
  return result == CUDA_SUCCESS && !captured ? work() : result;
}

}  // namespace sim

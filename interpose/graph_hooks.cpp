// The wrappers of graphs: the handles, the nodes that allocate and free, the launches that carry them out.
#include "interpose/driver_calls.h"

using namespace vramtrack;
using format::Kind;

namespace {

// A capture into a graph that was there before (cuStreamBeginCaptureToGraph) answers that one: it stays one record.
CUresult capture_ended(CUstream stream, CUgraph* graph, DefaultStream default_stream, decltype(&cuStreamEndCapture) real) {
  const CUgraph captured = captured_graph(stream, default_stream);
  const CUresult result = real(stream, graph);
  if (result != CUDA_SUCCESS) graph_capture_failed((uint64_t)captured);
  return made(Kind::kGraph, result, graph);
}

CUresult instantiated(CUresult result, const CUgraphExec* exec, CUgraph graph) {
  if (result == CUDA_SUCCESS && exec) graph_copied((uint64_t)*exec, (uint64_t)graph);
  return made(Kind::kGraphExec, result, exec);
}

// Into a stream that is capturing it is a node of another graph.
CUresult launched(CUgraphExec exec, CUstream stream, DefaultStream default_stream, decltype(&cuGraphLaunch) real) {
  const CUresult result = real(exec, stream);
  if (result == CUDA_SUCCESS && graphs_have_memory() && !captured_graph(stream, default_stream)) {
    ask_graph_pool(graph_launched((uint64_t)exec));
  }
  return result;
}

template <typename Graph, typename Function>
CUresult gone(Kind kind, Graph graph, Function real) {
  PendingGraph nodes((uint64_t)graph);
  const CUresult result = destroyed(kind, graph, real);
  nodes.finish(result);
  return result;
}

void tell_node(CUgraph graph, const CUgraphNodeParams* parameters) {
  if (!parameters) return;
  if (parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    const auto& alloc = parameters->alloc;
    graph_node_added({(uint64_t)graph, alloc.dptr, alloc.bytesize, alloc.poolProps.location.id});
  } else if (parameters->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    graph_node_added({(uint64_t)graph, parameters->free.dptr, 0, -1});
  }
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGraphCreate(CUgraph* graph, unsigned flags) {
  const Call call("cuGraphCreate", VRAMTRACK_CALL_SITE);
  return made(Kind::kGraph, VRAMTRACK_REAL(cuGraphCreate)(graph, flags), graph);
}

CUresult CUDAAPI cuGraphClone(CUgraph* graph, CUgraph original) {
  const Call call("cuGraphClone", VRAMTRACK_CALL_SITE);
  const CUresult result = VRAMTRACK_REAL(cuGraphClone)(graph, original);
  if (result == CUDA_SUCCESS && graph) graph_copied((uint64_t)*graph, (uint64_t)original);
  return made(Kind::kGraph, result, graph);
}

CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const Call call("cuStreamEndCapture", VRAMTRACK_CALL_SITE);
  return capture_ended(stream, graph, DefaultStream::kLegacy, VRAMTRACK_REAL(cuStreamEndCapture));
}

CUresult CUDAAPI cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  const Call call("cuStreamEndCapture", VRAMTRACK_CALL_SITE);
  return capture_ended(stream, graph, DefaultStream::kPerThread, VRAMTRACK_REAL(cuStreamEndCapture_ptsz));
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph) { return gone(Kind::kGraph, graph, VRAMTRACK_REAL(cuGraphDestroy)); }

// --- nodes -----------------------------------------------------------------------------------------------------------------

CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                                        CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  const Call call("cuGraphAddMemAllocNode", VRAMTRACK_CALL_SITE);
  const CUresult result = VRAMTRACK_REAL(cuGraphAddMemAllocNode)(node, graph, after, count, parameters);
  if (result == CUDA_SUCCESS && parameters) {
    graph_node_added({(uint64_t)graph, parameters->dptr, parameters->bytesize, parameters->poolProps.location.id});
  }
  return result;
}

CUresult CUDAAPI cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count, CUdeviceptr address) {
  const CUresult result = VRAMTRACK_REAL(cuGraphAddMemFreeNode)(node, graph, after, count, address);
  if (result == CUDA_SUCCESS) graph_node_added({(uint64_t)graph, address, 0, -1});
  return result;
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count, CUgraphNodeParams* parameters) {
  const Call call("cuGraphAddNode", VRAMTRACK_CALL_SITE);
  const CUresult result = VRAMTRACK_REAL(cuGraphAddNode)(node, graph, after, count, parameters);
  if (result == CUDA_SUCCESS) tell_node(graph, parameters);
  return result;
}

CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, const CUgraphEdgeData* edges,
                                   size_t count, CUgraphNodeParams* parameters) {
  const Call call("cuGraphAddNode", VRAMTRACK_CALL_SITE);
  const CUresult result = VRAMTRACK_REAL(cuGraphAddNode_v2)(node, graph, after, edges, count, parameters);
  if (result == CUDA_SUCCESS) tell_node(graph, parameters);
  return result;
}

// --- instances -------------------------------------------------------------------------------------------------------------

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* node, char* log, size_t size) {
  const Call call("cuGraphInstantiate", VRAMTRACK_CALL_SITE);
  return instantiated(VRAMTRACK_REAL(cuGraphInstantiate)(exec, graph, node, log, size), exec, graph);
}

CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* node, char* log, size_t size) {
  const Call call("cuGraphInstantiate", VRAMTRACK_CALL_SITE);
  return instantiated(VRAMTRACK_REAL(cuGraphInstantiate_v2)(exec, graph, node, log, size), exec, graph);
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  const Call call("cuGraphInstantiate", VRAMTRACK_CALL_SITE);
  return instantiated(VRAMTRACK_REAL(cuGraphInstantiateWithFlags)(exec, graph, flags), exec, graph);
}

CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  const Call call("cuGraphInstantiateWithParams", VRAMTRACK_CALL_SITE);
  return instantiated(VRAMTRACK_REAL(cuGraphInstantiateWithParams)(exec, graph, parameters), exec, graph);
}

CUresult CUDAAPI cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  const Call call("cuGraphInstantiateWithParams", VRAMTRACK_CALL_SITE);
  return instantiated(VRAMTRACK_REAL(cuGraphInstantiateWithParams_ptsz)(exec, graph, parameters), exec, graph);
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return launched(exec, stream, DefaultStream::kLegacy, VRAMTRACK_REAL(cuGraphLaunch));
}

CUresult CUDAAPI cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  return launched(exec, stream, DefaultStream::kPerThread, VRAMTRACK_REAL(cuGraphLaunch_ptsz));
}

CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice device) {
  const CUresult result = VRAMTRACK_REAL(cuDeviceGraphMemTrim)(device);
  if (result == CUDA_SUCCESS && graphs_have_memory()) ask_graph_pool(device);
  return result;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec) {
  return gone(Kind::kGraphExec, exec, VRAMTRACK_REAL(cuGraphExecDestroy));
}

// Their own names, whatever another preloaded library does with the exported ones; see driver_hooks.cpp.
#define GRAPH_HOOK(name) \
  __attribute__((visibility("hidden"), alias(#name), copy(name))) decltype(name) vramtrack_##name;
#include "interpose/hooks.def"

}  // extern "C"

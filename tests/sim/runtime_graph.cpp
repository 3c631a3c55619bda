// How do captures and graphs of the runtime map to the driver's? Handles and enumerators are the same.
#include "runtime_driver.h"

using namespace sim_runtime;

static_assert(sizeof(cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS));
static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS));
static_assert(cudaGraphInstantiateFlagAutoFreeOnLaunch == int{CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH});

STREAM_API(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, cudaStreamCaptureMode mode), {
  return with_context([&] { return calls.cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)); });
})

STREAM_API(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t* graph),
           { return with_context([&] { return calls.cuStreamEndCapture(stream, graph); }); })

STREAM_API(cudaStreamIsCapturing, _ptsz, (cudaStream_t stream, cudaStreamCaptureStatus* status), {
  return with_context(
      [&] { return calls.cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(status)); });
})

STREAM_API(cudaStreamGetCaptureInfo, _ptsz,
           (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
            const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges, size_t* count),
           {
             return with_context([&] {
               return calls.cuStreamGetCaptureInfo(stream, reinterpret_cast<CUstreamCaptureStatus*>(status),
                                                   reinterpret_cast<cuuint64_t*>(id), graph, dependencies,
                                                   reinterpret_cast<const CUgraphEdgeData**>(edges), count);
             });
           })

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return with_context([&] { return driver.cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)); });
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned int flags) {
  return with_context([&] { return driver.cuGraphCreate(graph, flags); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return with_context([&] { return driver.cuGraphDestroy(graph); });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return with_context([&] { return driver.cuGraphGetNodes(graph, nodes, count); });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return with_context([&] { return driver.cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(type)); });
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count) {
  return with_context([&] { return driver.cuGraphAddEmptyNode(node, graph, dependencies, count); });
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                     size_t count, cudaMemAllocNodeParams* params) {
  return with_context([&] {
    return driver.cuGraphAddMemAllocNode(node, graph, dependencies, count,
                                         reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(params));
  });
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                    size_t count, void* pointer) {
  return with_context([&] {
    return driver.cuGraphAddMemFreeNode(node, graph, dependencies, count, reinterpret_cast<CUdeviceptr>(pointer));
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return with_context([&] { return driver.cuGraphInstantiateWithFlags(exec, graph, flags); });
}

STREAM_API(cudaGraphInstantiateWithParams, _ptsz,
           (cudaGraphExec_t * exec, cudaGraph_t graph, cudaGraphInstantiateParams* params), {
             return with_context([&] {
               return calls.cuGraphInstantiateWithParams(exec, graph,
                                                         reinterpret_cast<CUDA_GRAPH_INSTANTIATE_PARAMS*>(params));
             });
           })

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  return with_context([&] { return driver.cuGraphExecGetFlags(exec, reinterpret_cast<cuuint64_t*>(flags)); });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return with_context([&] { return driver.cuGraphExecDestroy(exec); });
}

STREAM_API(cudaGraphLaunch, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
           { return with_context([&] { return calls.cuGraphLaunch(exec, stream); }); })

cudaError_t cudaDeviceGraphMemTrim(int device) {
  return with_context([&] { return driver.cuDeviceGraphMemTrim(device); });
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  return with_context([&] {
    return driver.cuDeviceGetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute), value);
  });
}

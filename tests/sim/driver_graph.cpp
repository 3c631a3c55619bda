// What do graphs hold and what does launching one do? Nodes run in the order of their creation; kernels do nothing.
#include "capture.h"
#include "memory.h"

namespace sim {
namespace {

bool live(Address address) {
  auto block = machine().blocks.find(address);
  return block != machine().blocks.end() && block->second.kind == BlockKind::kGraph;
}

CUresult materialise(int device, Address address, size_t size_bytes) {
  std::lock_guard guard(machine().lock);
  Device& d = machine().devices[device];
  size_t used_bytes = d.graph_used_bytes + round_up(size_bytes, kAlignment);
  if (used_bytes > d.graph_reserved_bytes) {
    if (!reserve_bytes(device, used_bytes - d.graph_reserved_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    d.graph_reserved_bytes = used_bytes;
  }
  d.graph_used_bytes = used_bytes;
  d.graph_used_high_bytes = std::max(d.graph_used_high_bytes, d.graph_used_bytes);
  d.graph_reserved_high_bytes = std::max(d.graph_reserved_high_bytes, d.graph_reserved_bytes);
  add_block(address, {size_bytes, BlockKind::kGraph, device, nullptr, nullptr, 0, 0});
  return CUDA_SUCCESS;
}

CUresult free_in_graph(Address address) {
  std::lock_guard guard(machine().lock);
  auto block = machine().blocks.find(address);
  if (block == machine().blocks.end()) return CUDA_ERROR_INVALID_VALUE;
  release_block(block);
  return CUDA_SUCCESS;
}

CUresult nothing() { return CUDA_SUCCESS; }

// What an earlier launch left allocated is freed where the flags allow it and an error where they do not.
CUresult settle_earlier_launch(const CUgraphExec_st& exec) {
  bool auto_free = (exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  for (const GraphMemory::Allocation& allocation : exec.memory->allocations) {
    if (!live(allocation.address)) continue;
    if (!auto_free) return CUDA_ERROR_INVALID_VALUE;
    release_block(machine().blocks.find(allocation.address));
  }
  return CUDA_SUCCESS;
}

CUresult launch(CUgraphExec exec) {
  std::vector<std::shared_ptr<CUgraphNode_st>> nodes;
  {
    std::lock_guard guard(machine().lock);
    if (CUresult error = settle_earlier_launch(*exec)) return error;
    nodes = exec->nodes;
  }
  for (const auto& node : nodes)
    if (CUresult error = node->work()) return error;
  return CUDA_SUCCESS;
}

CUresult instantiate(const char* name, CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return context_call(name, [&](CUctx_st&) {
    if (out == nullptr || !machine().graphs.contains(graph)) return CUDA_ERROR_INVALID_VALUE;
    std::unique_ptr<CUgraphExec_st> exec(new CUgraphExec_st{graph->nodes, graph->memory, graph->user_objects, flags});
    *out = machine().graph_execs.add(std::move(exec));
    return CUDA_SUCCESS;
  });
}

template <class Body>
CUresult on_graph(const char* name, CUgraph graph, Body&& body) {
  return driver_call(name, [&] {
    if (!known_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    return static_cast<CUresult>(body(*graph));
  });
}

const size_t* graph_attribute(const Device& device, CUgraphMem_attribute attribute) {
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: return &device.graph_used_bytes;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: return &device.graph_used_high_bytes;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: return &device.graph_reserved_bytes;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: return &device.graph_reserved_high_bytes;
    default: return nullptr;
  }
}

}  // namespace

bool known_graph(CUgraph graph) {
  bool captured = false;
  for (const auto& capture : machine().captures) captured |= capture->graph == graph;
  return captured || machine().graphs.contains(graph);
}

CUgraphNode add_node(CUgraph_st& graph, CUgraphNodeType type, std::function<CUresult()> work) {
  auto node = std::make_shared<CUgraphNode_st>();
  node->type = type;
  node->work = std::move(work);
  graph.nodes.push_back(node);
  return node.get();
}

CUresult add_allocation_node(CUgraph_st& graph, int device, size_t size_bytes, CUgraphNode& node) {
  if (size_bytes == 0 || !valid_device(device)) return CUDA_ERROR_INVALID_VALUE;
  if (size_bytes > machine().devices[device].total_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  std::optional<Address> address = take_device_addresses(device, size_bytes);
  if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
  graph.memory->allocations.push_back({device, *address, size_bytes});
  node = add_node(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                  [device, address = *address, size_bytes] { return materialise(device, address, size_bytes); });
  node->address = *address;
  node->size_bytes = size_bytes;
  return CUDA_SUCCESS;
}

CUresult add_free_node(CUgraph_st& graph, CUdeviceptr address, CUgraphNode& node) {
  bool own = false;
  for (const auto& allocation : graph.memory->allocations) own |= allocation.address == address;
  if (!own && !live(address)) return CUDA_ERROR_INVALID_VALUE;
  node = add_node(graph, CU_GRAPH_NODE_TYPE_MEM_FREE, [address] { return free_in_graph(address); });
  node->address = address;
  return CUDA_SUCCESS;
}

}  // namespace sim

// Runs under the lock, when the last of graph and executables goes. What is still allocated stays the program's, to be freed
// like any other block.
GraphMemory::~GraphMemory() {
  for (const Allocation& allocation : allocations) {
    auto block = sim::machine().blocks.find(allocation.address);
    if (block == sim::machine().blocks.end()) {
      sim::give_device_addresses(allocation.device, allocation.address, allocation.size_bytes);
    } else {
      sim::Device& device = sim::machine().devices[allocation.device];
      size_t rounded = sim::round_up(allocation.size_bytes, sim::kAlignment);
      block->second.kind = sim::BlockKind::kLinear;
      device.graph_used_bytes -= rounded;
      device.graph_reserved_bytes -= rounded;
    }
  }
}

using namespace sim;

CUresult cuGraphCreate(CUgraph* graph, unsigned int flags) {
  return driver_call(__func__, [&] {
    if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *graph = machine().graphs.add(std::make_unique<CUgraph_st>());
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return driver_call(__func__, [&] { return machine().graphs.remove(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return driver_call(__func__,
                     [&] { return machine().graph_execs.remove(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; });
}

CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode*, char*, size_t) {
  return instantiate(__func__, exec, graph, 0);
}

CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode*, char*, size_t) {
  return instantiate(__func__, exec, graph, 0);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return instantiate(__func__, exec, graph, flags);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = instantiate(__func__, exec, graph, params->flags);
  params->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  bool known = false;
  CUresult result = driver_call(__func__, [&] {
    known = machine().graph_execs.contains(exec);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
  if (result != CUDA_SUCCESS) return result;
  return stream_call("cuGraphLaunch on its stream", stream, CU_GRAPH_NODE_TYPE_GRAPH, [exec] { return launch(exec); });
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* flags) {
  return driver_call(__func__, [&] {
    if (flags == nullptr || !machine().graph_execs.contains(exec)) return CUDA_ERROR_INVALID_VALUE;
    *flags = exec->flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return on_graph(__func__, graph, [&](CUgraph_st& g) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (nodes == nullptr) {
      *count = g.nodes.size();
      return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < *count; i++) nodes[i] = i < g.nodes.size() ? g.nodes[i].get() : nullptr;
    *count = std::min(*count, g.nodes.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return driver_call(__func__, [&] {
    if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t) {
  return on_graph(__func__, graph, [&](CUgraph_st& g) {
    if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *node = add_node(g, CU_GRAPH_NODE_TYPE_EMPTY, nothing);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t,
                                 const CUDA_KERNEL_NODE_PARAMS* params) {
  return on_graph(__func__, graph, [&](CUgraph_st& g) {
    if (node == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *node = add_node(g, CU_GRAPH_NODE_TYPE_KERNEL, nothing);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t,
                                CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return on_graph(__func__, graph, [&](CUgraph_st& g) {
    if (node == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = add_allocation_node(g, params->poolProps.location.id, params->bytesize, *node);
    if (result == CUDA_SUCCESS) params->dptr = (*node)->address;
    return result;
  });
}

CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t, CUdeviceptr address) {
  return on_graph(__func__, graph, [&](CUgraph_st& g) {
    if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add_free_node(g, address, *node);
  });
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
  return driver_call(__func__, [&] {
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    trim_graph_memory(device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  return driver_call(__func__, [&] {
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const size_t* source = graph_attribute(machine().devices[device], attribute);
    if (source == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *static_cast<cuuint64_t*>(value) = *source;
    return CUDA_SUCCESS;
  });
}

// Which memory does a graph allocate when it is launched, and which does it give back?
//
// An allocation node, added by call or captured from cudaMallocAsync, is no allocation yet: each launch of the graph makes it one,
// at the node's own address, with the line that made the node. What the graph frees itself is none of our business.
//
// Thread-safety: everything may be called from any thread. Bounded: beyond kMaxGraphNodes nodes alive at a time, new ones are not
// followed.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/block_index.h"
#include "interpose/capture_format.h"
#include "interpose/lock.h"

namespace vramtrack {

struct GraphNode {
  uint64_t address, size;  // size 0: the node frees
  const char* api;
  uint32_t stack, thread;
  int device;
  bool freed_inside;  // by a later node of the same graph
  // Graphs and their instances share the tails of their lists; a node goes with the last that names it.
  uint32_t next, names;
};

struct GraphMemory {
  Lock lock;
  std::atomic<uint32_t> alive;  // nodes; 0 = nothing to ask at a launch
  GraphNode* nodes;
  uint32_t used, first_free;
  BlockIndex lists;      // graph or instance -> its newest node
  BlockIndex capturing;  // thread -> its newest captured node
};

// `graph` 0: captured by `node.thread`, into a graph that is known when the capture ends.
void add_graph_node(GraphMemory&, uint64_t graph, const GraphNode& node);

// The nodes that `thread` captured are those of `graph`; 0: the capture failed.
void end_graph_capture(GraphMemory&, uint32_t thread, uint64_t graph);

// `copy` (an instance, a clone) has the nodes that `graph` has now.
void copy_graph_nodes(GraphMemory&, uint64_t copy, uint64_t graph);

void forget_graph(GraphMemory&, uint64_t graph_or_instance);

// Calls `visit` for each node whose effect outlives the launch.
template <typename Visit>
void for_each_effect(GraphMemory& graphs, uint64_t instance, Visit visit) {
  if (!graphs.alive.load(std::memory_order_relaxed)) return;
  Locked hold(graphs.lock);
  for (uint32_t i = graphs.lists.find(instance); i; i = graphs.nodes[i].next)
    if (!graphs.nodes[i].freed_inside) visit(graphs.nodes[i]);
}

}  // namespace vramtrack

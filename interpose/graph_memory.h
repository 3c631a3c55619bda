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
#include "interpose/record_pool.h"

namespace vramtrack {

inline constexpr uint32_t kMaxGraphNodes = 1 << 18;

struct GraphNode {
  uint64_t graph;
  uint64_t address, size;  // size 0: the node frees; address 0: it frees what a node before it in the graph allocates
  const char* api;
  uint32_t stack, thread;
  int device;
  // Graphs and their instances share the tails of their lists; a node goes with the last that names it.
  uint32_t next, names;
  uint64_t number, freed_by;  // of this node in the order of all; of the node of the same graph that frees it, 0 = none does
};

struct GraphMemory {
  Lock lock;
  std::atomic<uint32_t> alive;  // nodes; 0 = nothing to ask at a launch
  RecordPool<GraphNode, kMaxGraphNodes> nodes;
  uint64_t last_number;
  BlockIndex lists;   // graph or instance -> its newest node
  BlockIndex makers;  // address -> the newest node that allocates it
};

void add_graph_node(GraphMemory&, const GraphNode& node);

// `copy` (an instance, a clone) has the nodes that `graph` has now.
void copy_graph_nodes(GraphMemory&, uint64_t copy, uint64_t graph);

// A graph or instance that is about to be destroyed gives its nodes up: they go, or come back if it is not destroyed.
uint32_t take_graph_nodes(GraphMemory&, uint64_t graph_or_instance);
void put_back_graph_nodes(GraphMemory&, uint64_t graph_or_instance, uint32_t taken);
void give_up_graph_nodes(GraphMemory&, uint32_t taken);

// Where a graph or instance allocates; -1 = nowhere.
int device_of_nodes(GraphMemory&, uint64_t graph_or_instance);

// Calls `visit` for each node whose effect outlives the launch.
template <typename Visit>
void for_each_effect(GraphMemory& graphs, uint64_t instance, Visit visit) {
  if (!graphs.alive.load(std::memory_order_relaxed)) return;
  Locked hold(graphs.lock);
  const uint32_t newest = graphs.lists.find(instance);
  for (uint32_t i = newest; i; i = graphs.nodes[i].next) {
    const GraphNode& node = graphs.nodes[i];
    const bool freed_inside = node.freed_by && node.freed_by <= graphs.nodes[newest].number;
    if (node.address && !freed_inside) visit(node);
  }
}

}  // namespace vramtrack

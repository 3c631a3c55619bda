// Which memory does a graph allocate when it is launched? See graph_memory.h.
#include "interpose/graph_memory.h"

namespace vramtrack {
namespace {

void set_list(BlockIndex& lists, uint64_t key, uint32_t node) {
  lists.erase(key);
  if (node) lists.insert(key, node);
}

// One name less for `node`; what nobody names any more is free again.
void drop(GraphMemory& graphs, uint32_t node) {
  while (node && --graphs.nodes[node].names == 0) {
    const uint32_t next = graphs.nodes[node].next;
    if (graphs.makers.find(graphs.nodes[node].address) == node) graphs.makers.erase(graphs.nodes[node].address);
    graphs.nodes.give_back(node);
    graphs.alive.fetch_sub(1, std::memory_order_relaxed);
    node = next;
  }
}

// The node of the graph that allocates `address`; 0 = none does. Only a clone's may be another graph's by origin, and far back.
uint32_t allocator_of(const GraphMemory& graphs, uint64_t graph, uint64_t address) {
  const uint32_t maker = graphs.makers.find(address);
  if (!maker || graphs.nodes[maker].graph == graph) return maker;
  for (uint32_t i = graphs.lists.find(graph); i; i = graphs.nodes[i].next)
    if (graphs.nodes[i].address == address && graphs.nodes[i].size) return i;
  return 0;
}

}  // namespace

void add_graph_node(GraphMemory& graphs, const GraphNode& added) {
  Locked hold(graphs.lock);
  const uint32_t list = graphs.lists.find(added.graph);
  const uint32_t id = graphs.nodes.take();
  if (!id) return;
  GraphNode& node = graphs.nodes[id];
  node = added;
  node.number = ++graphs.last_number;
  if (node.size) {
    set_list(graphs.makers, node.address, id);
  } else if (const uint32_t made = allocator_of(graphs, node.graph, node.address)) {
    if (!graphs.nodes[made].freed_by) graphs.nodes[made].freed_by = node.number;  // in copies of the graph that have this node
    node.address = 0;
  }
  node.next = list;  // named by this node now, no longer by the list
  node.names = 1;
  graphs.alive.fetch_add(1, std::memory_order_relaxed);
  set_list(graphs.lists, added.graph, id);
}

void copy_graph_nodes(GraphMemory& graphs, uint64_t copy, uint64_t graph) {
  if (!graphs.alive.load(std::memory_order_relaxed)) return;
  Locked hold(graphs.lock);
  const uint32_t list = graphs.lists.find(graph);
  drop(graphs, graphs.lists.find(copy));  // its handle was another's before
  set_list(graphs.lists, copy, list);
  if (list) graphs.nodes[list].names++;
}

int device_of_nodes(GraphMemory& graphs, uint64_t graph_or_instance) {
  Locked hold(graphs.lock);
  for (uint32_t i = graphs.lists.find(graph_or_instance); i; i = graphs.nodes[i].next)
    if (graphs.nodes[i].size) return graphs.nodes[i].device;
  return -1;
}

uint32_t take_graph_nodes(GraphMemory& graphs, uint64_t graph_or_instance) {
  if (!graphs.alive.load(std::memory_order_relaxed)) return 0;
  Locked hold(graphs.lock);
  const uint32_t taken = graphs.lists.find(graph_or_instance);
  if (taken) graphs.lists.erase(graph_or_instance);
  return taken;
}

void put_back_graph_nodes(GraphMemory& graphs, uint64_t graph_or_instance, uint32_t taken) {
  Locked hold(graphs.lock);
  set_list(graphs.lists, graph_or_instance, taken);
}

void give_up_graph_nodes(GraphMemory& graphs, uint32_t taken) {
  Locked hold(graphs.lock);
  drop(graphs, taken);
}

}  // namespace vramtrack

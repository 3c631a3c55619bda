// Which memory does a graph allocate when it is launched? See graph_memory.h.
#include "interpose/graph_memory.h"

namespace vramtrack {
namespace {

constexpr uint32_t kMaxGraphNodes = 1 << 18;

bool have_nodes(GraphMemory& graphs) {
  if (!graphs.nodes) graphs.nodes = static_cast<GraphNode*>(map_private(kMaxGraphNodes * sizeof(GraphNode)));
  return graphs.nodes;
}

uint32_t new_node(GraphMemory& graphs) {
  if (const uint32_t id = graphs.first_free) {
    graphs.first_free = graphs.nodes[id].next;
    return id;
  }
  return graphs.used + 1 < kMaxGraphNodes ? ++graphs.used : 0;
}

void set_list(BlockIndex& lists, uint64_t key, uint32_t node) {
  lists.erase(key);
  if (node) lists.insert(key, node);
}

// One name less for `node`; what nobody names any more is free again.
void drop(GraphMemory& graphs, uint32_t node) {
  while (node && --graphs.nodes[node].names == 0) {
    const uint32_t next = graphs.nodes[node].next;
    graphs.nodes[node].next = graphs.first_free;
    graphs.first_free = node;
    graphs.alive.fetch_sub(1, std::memory_order_relaxed);
    node = next;
  }
}

// The node of the list that allocates `address`; 0 = none does.
uint32_t allocator_of(const GraphMemory& graphs, uint32_t list, uint64_t address) {
  for (uint32_t i = list; i; i = graphs.nodes[i].next)
    if (graphs.nodes[i].address == address && graphs.nodes[i].size) return i;
  return 0;
}

void push(GraphMemory& graphs, BlockIndex& lists, uint64_t key, const GraphNode& node) {
  const uint32_t list = lists.find(key);
  if (!node.size) {
    if (const uint32_t made = allocator_of(graphs, list, node.address)) {
      graphs.nodes[made].freed_inside = true;
      return;
    }
  }
  const uint32_t id = new_node(graphs);
  if (!id) return;
  graphs.nodes[id] = node;
  graphs.nodes[id].next = list;  // named by this node now, no longer by the list
  graphs.nodes[id].names = 1;
  graphs.alive.fetch_add(1, std::memory_order_relaxed);
  set_list(lists, key, id);
}

}  // namespace

void add_graph_node(GraphMemory& graphs, uint64_t graph, const GraphNode& node) {
  Locked hold(graphs.lock);
  if (!have_nodes(graphs)) return;
  graph ? push(graphs, graphs.lists, graph, node) : push(graphs, graphs.capturing, node.thread, node);
}

void end_graph_capture(GraphMemory& graphs, uint32_t thread, uint64_t graph) {
  if (!graphs.alive.load(std::memory_order_relaxed)) return;
  Locked hold(graphs.lock);
  const uint32_t captured = graphs.capturing.find(thread);
  if (!captured) return;
  set_list(graphs.capturing, thread, 0);
  if (!graph) return drop(graphs, captured);
  uint32_t last = captured;
  while (graphs.nodes[last].next) last = graphs.nodes[last].next;
  graphs.nodes[last].next = graphs.lists.find(graph);  // captured into a graph that had nodes
  set_list(graphs.lists, graph, captured);
}

void copy_graph_nodes(GraphMemory& graphs, uint64_t copy, uint64_t graph) {
  if (!graphs.alive.load(std::memory_order_relaxed)) return;
  Locked hold(graphs.lock);
  const uint32_t list = graphs.lists.find(graph);
  drop(graphs, graphs.lists.find(copy));  // its handle was another's before
  set_list(graphs.lists, copy, list);
  if (list) graphs.nodes[list].names++;
}

void forget_graph(GraphMemory& graphs, uint64_t graph_or_instance) {
  if (!graphs.alive.load(std::memory_order_relaxed)) return;
  Locked hold(graphs.lock);
  drop(graphs, graphs.lists.find(graph_or_instance));
  set_list(graphs.lists, graph_or_instance, 0);
}

}  // namespace vramtrack

// Do nodes come and go with the graphs that name them?
#include "interpose/graph_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace vramtrack {
namespace {

std::vector<uint64_t> effects(GraphMemory& graphs, uint64_t instance) {
  std::vector<uint64_t> addresses;
  for_each_effect(graphs, instance, [&](const GraphNode& node) { addresses.push_back(node.address); });
  return addresses;
}

GraphNode allocates(uint64_t graph, uint64_t address) { return {graph, address, 100, "f", 0, 0, 0, 0, 0, 0, 0}; }
GraphNode frees(uint64_t graph, uint64_t address) { return {graph, address, 0, "f", 0, 0, 0, 0, 0, 0, 0}; }

void destroy(GraphMemory& graphs, uint64_t graph) { give_up_graph_nodes(graphs, take_graph_nodes(graphs, graph)); }

using Nodes = std::vector<uint64_t>;

TEST(GraphMemory, an_instance_has_the_nodes_of_its_time) {
  GraphMemory graphs = {};
  add_graph_node(graphs, allocates(10, 1));
  copy_graph_nodes(graphs, 20, 10);
  add_graph_node(graphs, allocates(10, 2));
  copy_graph_nodes(graphs, 30, 10);
  EXPECT_EQ(effects(graphs, 20), (Nodes{1}));
  EXPECT_EQ(effects(graphs, 30), (Nodes{2, 1}));
}

TEST(GraphMemory, an_instance_from_before_the_free_node_still_allocates) {
  GraphMemory graphs = {};
  add_graph_node(graphs, allocates(10, 1));
  copy_graph_nodes(graphs, 20, 10);
  add_graph_node(graphs, frees(10, 1));
  copy_graph_nodes(graphs, 30, 10);
  EXPECT_EQ(effects(graphs, 20), (Nodes{1}));
  EXPECT_EQ(effects(graphs, 30), Nodes{});
}

TEST(GraphMemory, what_is_freed_inside_has_no_effect) {
  GraphMemory graphs = {};
  add_graph_node(graphs, allocates(10, 1));
  add_graph_node(graphs, allocates(10, 2));
  add_graph_node(graphs, frees(10, 1));
  add_graph_node(graphs, frees(10, 9));
  EXPECT_EQ(effects(graphs, 10), (Nodes{9, 2}));
}

TEST(GraphMemory, nodes_go_with_the_last_that_names_them) {
  GraphMemory graphs = {};
  for (uint64_t round = 0; round < 1000000; ++round) {  // more than there is room for at a time
    add_graph_node(graphs, allocates(10, round + 1));
    copy_graph_nodes(graphs, 20, 10);
    destroy(graphs, 10);
    ASSERT_EQ(effects(graphs, 20), (Nodes{round + 1}));
    destroy(graphs, 20);
  }
  EXPECT_EQ(graphs.alive.load(), 0u);
}

TEST(GraphMemory, a_handle_used_again_forgets_what_it_was) {
  GraphMemory graphs = {};
  add_graph_node(graphs, allocates(10, 1));
  copy_graph_nodes(graphs, 20, 10);
  copy_graph_nodes(graphs, 20, 11);
  EXPECT_EQ(effects(graphs, 20), Nodes{});
  destroy(graphs, 10);
  EXPECT_EQ(graphs.alive.load(), 0u);
}

TEST(GraphMemory, what_could_not_be_destroyed_keeps_its_nodes) {
  GraphMemory graphs = {};
  add_graph_node(graphs, allocates(10, 1));
  const uint32_t taken = take_graph_nodes(graphs, 10);
  EXPECT_EQ(effects(graphs, 10), Nodes{});
  put_back_graph_nodes(graphs, 10, taken);
  EXPECT_EQ(effects(graphs, 10), (Nodes{1}));
}

TEST(GraphMemory, a_clone_frees_what_it_was_cloned_with) {
  GraphMemory graphs = {};
  add_graph_node(graphs, allocates(10, 1));
  copy_graph_nodes(graphs, 11, 10);
  add_graph_node(graphs, frees(11, 1));
  EXPECT_EQ(effects(graphs, 11), Nodes{});
}

}  // namespace
}  // namespace vramtrack

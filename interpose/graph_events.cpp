// What do a graph's nodes and launches mean to the recording? See events.h and graph_memory.h.
#include "interpose/call.h"
#include "interpose/events_internal.h"

namespace vramtrack {

using namespace format;

void graph_node_added(const GraphNodeReport& report) {
  OwnWork work;
  Recording* r = work.entered() && report.address ? recording_for_event() : nullptr;
  if (!r) return;
  GraphNode node = {report.graph, report.address, report.size, Call::outermost().api, 0, 0, report.device, 0, 0, 0, 0};
  if (report.size) {
    const Origin origin = driver_origin(*r);
    node.stack = origin.stack.id;
    node.thread = origin.thread;
  }
  add_graph_node(r->graphs, node);
}

void graph_copied(uint64_t copy, uint64_t graph) {
  OwnWork work;
  if (Recording* r = work.entered() ? present_recording() : nullptr) copy_graph_nodes(r->graphs, copy, graph);
}

void graph_capture_failed(uint64_t graph) { PendingGraph(graph).finish(kSuccess); }

PendingGraph::PendingGraph(uint64_t graph_or_instance) : handle_(graph_or_instance) {
  OwnWork work;
  if (Recording* r = work.entered() ? present_recording() : nullptr) nodes_ = take_graph_nodes(r->graphs, handle_);
}

void PendingGraph::finish(int result) {
  if (!nodes_) return;
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (!r) return;
  result == kSuccess ? give_up_graph_nodes(r->graphs, nodes_) : put_back_graph_nodes(r->graphs, handle_, nodes_);
}

bool graphs_have_memory() {
  const Recording* r = present_recording();
  return r && r->graphs.alive.load(std::memory_order_relaxed) != 0;
}

int graph_launched(uint64_t instance) {
  OwnWork work;
  Recording* r = work.entered() ? present_recording() : nullptr;
  if (!r) return -1;
  for_each_effect(r->graphs, instance, [&](const GraphNode& node) {
    if (node.size) {
      record_allocation(r->recorder, {driver_space(Kind::kGraphMemory, node.device), Kind::kGraphMemory, node.address, node.size, 0,
                                      node.api, node.stack, node.thread});
    } else if (const TakenBlock taken = take_block(r->recorder, node.address, kinds_of(FreeFamily::kDeviceMemory)); taken.block) {
      give_up(r->recorder, taken, 0);
    }
  });
  return device_of_nodes(r->graphs, instance);
}

}  // namespace vramtrack

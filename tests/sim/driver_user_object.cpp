// Who refers to a user object, and when does its destructor run? In the thread that gave up the last reference, before its call
// returns; the manual only promises that some thread runs it.
#include <climits>

#include "capture.h"

namespace sim {
namespace {

bool valid_count(unsigned count) { return count != 0 && count <= unsigned{INT_MAX}; }

void forget_if_unused(CUuserObject object) {
  if (object->of_program != 0 || object->of_graphs != 0) return;
  machine().farewells.push_back([destroy = object->destroy, argument = object->argument] { destroy(argument); });
  machine().user_objects.remove(object);
}

// `body` sees a known object and a count that makes sense.
template <class Body>
CUresult on_object(const char* name, CUuserObject object, unsigned count, Body&& body) {
  return driver_call(name, [&] {
    if (!machine().user_objects.contains(object) || !valid_count(count)) return CUDA_ERROR_INVALID_VALUE;
    return static_cast<CUresult>(body());
  });
}

}  // namespace
}  // namespace sim

UserReferences::UserReferences(const UserReferences& other) {
  for (const auto& [object, count] : other.counts_) add(object, count);
}

UserReferences::~UserReferences() {
  for (const auto& [object, count] : counts_) {
    object->of_graphs -= count;
    sim::forget_if_unused(object);
  }
}

void UserReferences::add(CUuserObject object, size_t count) {
  counts_[object] += count;
  object->of_graphs += count;
}

bool UserReferences::remove(CUuserObject object, size_t count) {
  auto known = counts_.find(object);
  if (known == counts_.end() || known->second < count) return false;
  object->of_graphs -= count;
  known->second -= count;
  if (known->second == 0) counts_.erase(known);
  sim::forget_if_unused(object);
  return true;
}

using namespace sim;

CUresult cuUserObjectCreate(CUuserObject* out, void* argument, CUhostFn destroy, unsigned int count, unsigned int flags) {
  return driver_call(__func__, [&] {
    if (out == nullptr || destroy == nullptr || !valid_count(count)) return CUDA_ERROR_INVALID_VALUE;
    if (flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) return CUDA_ERROR_INVALID_VALUE;
    *out = machine().user_objects.add(std::make_unique<CUuserObject_st>(CUuserObject_st{destroy, argument, count, 0}));
    return CUDA_SUCCESS;
  });
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count) {
  return on_object(__func__, object, count, [&] {
    object->of_program += count;
    return CUDA_SUCCESS;
  });
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
  return on_object(__func__, object, count, [&] {
    if (object->of_program < count) return CUDA_ERROR_INVALID_VALUE;
    object->of_program -= count;
    forget_if_unused(object);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags) {
  return on_object(__func__, object, count, [&] {
    const bool move = flags == CU_GRAPH_USER_OBJECT_MOVE;
    if (!known_graph(graph) || (flags != 0 && !move)) return CUDA_ERROR_INVALID_VALUE;
    if (move && object->of_program < count) return CUDA_ERROR_INVALID_VALUE;
    if (move) object->of_program -= count;
    graph->user_objects.add(object, count);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
  return on_object(__func__, object, count, [&] {
    if (!known_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    return graph->user_objects.remove(object, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

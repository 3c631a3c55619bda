// How do the runtime's user objects map to the driver's? Handles, callbacks and flags are the same.
#include "runtime_driver.h"

using namespace sim_runtime;

static_assert(int{cudaUserObjectNoDestructorSync} == int{CU_USER_OBJECT_NO_DESTRUCTOR_SYNC});
static_assert(int{cudaGraphUserObjectMove} == int{CU_GRAPH_USER_OBJECT_MOVE});

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* argument, cudaHostFn_t destroy, unsigned int count,
                                 unsigned int flags) {
  return with_context([&] { return driver.cuUserObjectCreate(object, argument, destroy, count, flags); });
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  return with_context([&] { return driver.cuUserObjectRetain(object, count); });
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  return with_context([&] { return driver.cuUserObjectRelease(object, count); });
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags) {
  return with_context([&] { return driver.cuGraphRetainUserObject(graph, object, count, flags); });
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count) {
  return with_context([&] { return driver.cuGraphReleaseUserObject(graph, object, count); });
}

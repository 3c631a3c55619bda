// Does a user object live for as long as anyone refers to it: the program, graphs and their executables?
#include "sim_test.h"

namespace {

struct UserObject : Sim {
  static void count(void* destroyed) { ++*static_cast<int*>(destroyed); }
  cudaUserObject_t make(unsigned references = 1) {
    cudaUserObject_t object = nullptr;
    EXPECT_EQ(cudaUserObjectCreate(&object, &destroyed_, count, references, cudaUserObjectNoDestructorSync), cudaSuccess);
    return object;
  }
  cudaGraph_t make_graph() {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
    return graph;
  }
  int destroyed_ = 0;
};

TEST_F(UserObject, destroyed_with_the_last_reference_of_the_program) {
  cudaUserObject_t object = make(2);
  EXPECT_EQ(cudaUserObjectRetain(object, 3), cudaSuccess);
  EXPECT_EQ(cudaUserObjectRelease(object, 4), cudaSuccess);
  EXPECT_EQ(destroyed_, 0);
  EXPECT_EQ(cudaUserObjectRelease(object, 2), cudaErrorInvalidValue);  // more than there are
  EXPECT_EQ(cudaUserObjectRelease(object, 1), cudaSuccess);
  EXPECT_EQ(destroyed_, 1);
  EXPECT_EQ(cudaUserObjectRelease(object, 1), cudaErrorInvalidValue);
}

TEST_F(UserObject, a_graph_has_references_of_its_own) {
  cudaUserObject_t object = make();
  cudaGraph_t graph = make_graph();
  EXPECT_EQ(cudaGraphRetainUserObject(graph, object, 2, 0), cudaSuccess);
  EXPECT_EQ(cudaUserObjectRelease(object, 1), cudaSuccess);
  EXPECT_EQ(cudaGraphReleaseUserObject(graph, object, 3), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphReleaseUserObject(graph, object, 1), cudaSuccess);
  EXPECT_EQ(destroyed_, 0);
  EXPECT_EQ(cudaGraphReleaseUserObject(graph, object, 1), cudaSuccess);
  EXPECT_EQ(destroyed_, 1);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(destroyed_, 1);
}

TEST_F(UserObject, moved_references_are_no_longer_the_programs) {
  cudaUserObject_t object = make();
  cudaGraph_t graph = make_graph();
  EXPECT_EQ(cudaGraphRetainUserObject(graph, object, 2, cudaGraphUserObjectMove), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove), cudaSuccess);
  EXPECT_EQ(cudaUserObjectRelease(object, 1), cudaErrorInvalidValue);
  EXPECT_EQ(destroyed_, 0);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(destroyed_, 1);
}

TEST_F(UserObject, an_executable_keeps_it_when_its_graph_is_gone) {
  cudaGraph_t graph = make_graph();
  ASSERT_EQ(cudaGraphRetainUserObject(graph, make(), 1, cudaGraphUserObjectMove), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, nullptr), cudaSuccess);
  EXPECT_EQ(destroyed_, 0);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(destroyed_, 1);
}

TEST_F(UserObject, a_graph_that_is_being_captured_takes_it) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  CUstreamCaptureStatus status;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  ASSERT_EQ(DRIVER(cuStreamGetCaptureInfo, 11030)(stream, &status, &id, &graph, nullptr, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cudaGraphRetainUserObject(graph, make(), 1, cudaGraphUserObjectMove), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(destroyed_, 0);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(destroyed_, 1);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(UserObject, senseless_arguments_are_invalid_values) {
  cudaUserObject_t object = nullptr;
  EXPECT_EQ(cudaUserObjectCreate(&object, nullptr, count, 1, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaUserObjectCreate(&object, nullptr, count, 0, cudaUserObjectNoDestructorSync), cudaErrorInvalidValue);
  EXPECT_EQ(cudaUserObjectCreate(&object, nullptr, nullptr, 1, cudaUserObjectNoDestructorSync), cudaErrorInvalidValue);
  object = make();
  EXPECT_EQ(cudaUserObjectRetain(object, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaUserObjectRetain(object, 1u << 31), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphRetainUserObject(nullptr, object, 1, 0), cudaErrorInvalidValue);
  cudaGraph_t graph = make_graph();
  EXPECT_EQ(cudaGraphRetainUserObject(graph, object, 1, 2), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphReleaseUserObject(graph, object, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaUserObjectRelease(object, 1), cudaSuccess);
  EXPECT_EQ(destroyed_, 1);
}

}  // namespace

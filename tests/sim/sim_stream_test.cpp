// Do streams, events, captures and graphs behave as documented, and what memory do graphs hold?
#include "sim_test.h"

namespace {

cuuint64_t graph_memory(cudaGraphMemAttributeType attribute) {
  cuuint64_t bytes = 0;
  EXPECT_EQ(cudaDeviceGetGraphMemAttribute(0, attribute, &bytes), cudaSuccess);
  return bytes;
}

class CaptureTest : public Sim {
 protected:
  void SetUp() override {
    Sim::SetUp();
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
  }
  cudaGraphExec_t end_and_instantiate(unsigned long long flags = 0) {
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph_, flags), cudaSuccess);
    return exec;
  }
  cudaStream_t stream_ = nullptr;
  cudaGraph_t graph_ = nullptr;
};

TEST_F(CaptureTest, captured_allocation_is_a_node_and_holds_nothing_until_launched) {
  void *p = nullptr, *q = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(cudaMallocAsync(&p, kMiB, stream_), cudaSuccess);
  ASSERT_EQ(cudaMallocAsync(&q, kMiB, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(p, 1, kMiB, stream_), cudaSuccess);
  ASSERT_EQ(cudaFreeAsync(q, stream_), cudaSuccess);
  cudaGraphExec_t exec = end_and_instantiate();
  EXPECT_NE(p, nullptr);
  EXPECT_EQ(used_bytes(), baseline_);
  EXPECT_EQ(cudaFree(p), cudaErrorInvalidValue);
  size_t node_count = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph_, nullptr, &node_count), cudaSuccess);
  EXPECT_EQ(node_count, 4u);

  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_GE(used_bytes(), baseline_ + kMiB);
  char first = 0;
  ASSERT_EQ(cudaMemcpy(&first, p, 1, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaErrorInvalidValue);  // still allocated
  ASSERT_EQ(cudaFree(p), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);

  ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph_), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(p), cudaSuccess);  // outlives its graph
  ASSERT_EQ(cudaDeviceGraphMemTrim(0), cudaSuccess);
  EXPECT_EQ(used_bytes(), baseline_);
}

TEST_F(CaptureTest, auto_free_leaves_only_the_last_launch) {
  void* p = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(cudaMallocAsync(&p, kMiB, stream_), cudaSuccess);
  cudaGraphExec_t exec = end_and_instantiate(cudaGraphInstantiateFlagAutoFreeOnLaunch);
  for (int i = 0; i < 5; i++) ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(graph_memory(cudaGraphMemAttrUsedMemCurrent), kMiB);
  EXPECT_EQ(cudaFree(p), cudaSuccess);
}

TEST_F(CaptureTest, cudaMalloc_breaks_a_global_capture) {
  void* p = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&p, kMiB), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph_, nullptr);
  EXPECT_EQ(cudaMalloc(&p, kMiB), cudaSuccess);
}

TEST_F(CaptureTest, relaxed_capture_allows_cudaMalloc) {
  void* p = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&p, kMiB), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaSuccess);
}

class ForkTest : public CaptureTest {
 protected:
  void SetUp() override {
    CaptureTest::SetUp();
    ASSERT_EQ(cudaStreamCreate(&other_), cudaSuccess);
    ASSERT_EQ(cudaEventCreate(&fork_), cudaSuccess);
    ASSERT_EQ(cudaEventCreate(&join_), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(fork_, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(other_, fork_, 0), cudaSuccess);
    ASSERT_EQ(cudaMallocAsync(&p_, kMiB, other_), cudaSuccess);
    EXPECT_EQ(status_of(other_), cudaStreamCaptureStatusActive);
  }
  static cudaStreamCaptureStatus status_of(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
    return status;
  }
  cudaStream_t other_ = nullptr;
  cudaEvent_t fork_ = nullptr, join_ = nullptr;
  void* p_ = nullptr;
};

TEST_F(ForkTest, joined_stream_is_captured_with_its_origin) {
  ASSERT_EQ(cudaEventRecord(join_, other_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, join_, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaSuccess);
  EXPECT_EQ(status_of(other_), cudaStreamCaptureStatusNone);
}

TEST_F(ForkTest, unjoined_stream_spoils_the_capture) {
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph_, nullptr);
}

TEST_F(ForkTest, only_the_origin_can_end_the_capture) {
  EXPECT_EQ(cudaStreamEndCapture(other_, &graph_), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, null_stream_cannot_capture) {
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
}

TEST_F(CaptureTest, explicit_memory_nodes) {
  cudaGraphNode_t allocation = nullptr, release = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphCreate(&graph_, 0), cudaSuccess);
  cudaMemAllocNodeParams params{};
  params.poolProps.allocType = cudaMemAllocationTypePinned;
  params.poolProps.location = {cudaMemLocationTypeDevice, {0}};
  params.bytesize = kMiB;
  ASSERT_EQ(cudaGraphAddMemAllocNode(&allocation, graph_, nullptr, 0, &params), cudaSuccess);
  ASSERT_NE(params.dptr, nullptr);
  ASSERT_EQ(cudaGraphAddMemFreeNode(&release, graph_, &allocation, 1, params.dptr), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph_, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, nullptr), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(graph_memory(cudaGraphMemAttrUsedMemCurrent), 0u);
  EXPECT_GE(graph_memory(cudaGraphMemAttrUsedMemHigh), kMiB);
  EXPECT_GE(graph_memory(cudaGraphMemAttrReservedMemCurrent), kMiB);  // kept for the next launch
  EXPECT_EQ(cudaDeviceGraphMemTrim(0), cudaSuccess);
  EXPECT_EQ(graph_memory(cudaGraphMemAttrReservedMemCurrent), 0u);
}

using StreamTest = Sim;

TEST_F(StreamTest, streams_and_events_are_handles_that_die_once) {
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr, end = nullptr;
  float milliseconds = -1;
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -1), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&start), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(start, stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  ASSERT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventDestroy(start), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(start), cudaErrorInvalidResourceHandle);
}

TEST_F(StreamTest, host_functions_run_and_kernels_launch) {
  int runs = 0;
  ASSERT_EQ(cudaLaunchHostFunc(nullptr, [](void* count) { ++*static_cast<int*>(count); }, &runs), cudaSuccess);
  EXPECT_EQ(runs, 1);
  int kernel = 0;
  EXPECT_EQ(cudaLaunchKernel(&kernel, dim3{1, 1, 1}, dim3{32, 1, 1}, nullptr, 0, nullptr), cudaSuccess);
  EXPECT_EQ(cudaLaunchKernel(&kernel, dim3{0, 1, 1}, dim3{32, 1, 1}, nullptr, 0, nullptr), cudaErrorInvalidValue);
}

}  // namespace

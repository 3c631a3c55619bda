// Makes handles of every kind that the simulated runtime knows and destroys some: what stays is printed, a kind on each line.
#include "check.h"

#include <cuda.h>

#include <cstdio>

template <typename Handle, typename Make, typename Destroy>
static void some(const char* kind, int count, int destroyed, Make make, Destroy destroy) {
  for (int i = 0; i < count; i++) {
    Handle handle;
    CHECK(make(&handle));
    if (i < destroyed) CHECK(destroy(handle));
  }
  std::printf("%s %d\n", kind, count - destroyed);
}

static cudaError_t capture(cudaGraph_t* graph) {
  static cudaStream_t stream = [] {
    cudaStream_t made;
    CHECK(cudaStreamCreate(&made));
    return made;
  }();
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  return cudaStreamEndCapture(stream, graph);
}

int main() {
  some<cudaStream_t>("stream", 7, 3, [](auto* s) { return cudaStreamCreateWithFlags(s, cudaStreamNonBlocking); }, cudaStreamDestroy);
  some<cudaEvent_t>("event", 9, 2, [](auto* e) { return cudaEventCreateWithFlags(e, cudaEventDisableTiming); }, cudaEventDestroy);
  some<cudaGraph_t>("graph", 4, 1, capture, cudaGraphDestroy);
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  some<cudaGraphExec_t>("graph-exec", 6, 5, [&](auto* e) { return cudaGraphInstantiate(e, graph, 0); }, cudaGraphExecDestroy);
  CHECK(cudaGraphDestroy(graph));
  const auto pool = [](cudaMemPool_t* made) {
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    return cudaMemPoolCreate(made, &properties);
  };
  some<cudaMemPool_t>("memory-pool", 5, 4, pool, cudaMemPoolDestroy);
}

// expect: handle-leak/leak
//   line: cudaStreamCreate(&stream)
// forbid: forgotten-free never-freed invalid-free
//
// A server makes a stream for each request and destroys the event but not the stream. No allocation leaks, and yet the device
// fills up: each stream takes memory that only the driver knows of.
#include "check.h"

#include <vector>

struct Server {
  void* buffer = nullptr;
  Server() { CHECK(cudaMalloc(&buffer, 1 << 20)); }
  ~Server() { CHECK(cudaFree(buffer)); }

  void answer(int request) {
    cudaStream_t stream;
    cudaEvent_t done;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&done));
    CHECK(cudaMemsetAsync(buffer, request, 1 << 20, stream));
    CHECK(cudaEventRecord(done, stream));
    CHECK(cudaEventSynchronize(done));
    CHECK(cudaEventDestroy(done));
  }
};

int main() {
  // A stream for each worker, made once and destroyed at the end, is no leak.
  std::vector<cudaStream_t> workers(16);
  for (cudaStream_t& worker : workers) CHECK(cudaStreamCreate(&worker));
  Server server;
  for (int request = 0; request < 200; request++) server.answer(request);
  for (cudaStream_t worker : workers) CHECK(cudaStreamDestroy(worker));
}

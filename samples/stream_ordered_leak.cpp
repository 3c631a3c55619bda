// expect: forgotten-free/leak
// line: CHECK(cudaMallocAsync(&reply, bytes, stream));
// A server takes two stream-ordered blocks per request. A request that is answered from the cache returns before the free.
#include "check.h"

static bool cached(int request) { return request % 3 == 0; }

static void serve(int request, cudaStream_t stream) {
  const size_t bytes = 256 * 1024;
  void *question, *reply;
  CHECK(cudaMallocAsync(&question, bytes / 4, stream));
  CHECK(cudaMallocAsync(&reply, bytes, stream));
  CHECK(cudaMemsetAsync(question, request, bytes / 4, stream));
  CHECK(cudaFreeAsync(question, stream));
  if (cached(request)) return;
  CHECK(cudaMemsetAsync(reply, request, bytes, stream));
  CHECK(cudaFreeAsync(reply, stream));
}

int main() {
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  for (int request = 0; request < 300; request++) serve(request, stream);
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamDestroy(stream));
  std::puts("300 requests");
}

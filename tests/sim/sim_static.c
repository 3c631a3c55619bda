// Can a C program link the static runtime and nothing of C++? Compiled for the per-thread default stream, so that the _ptsz
// names are used as well.
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include <cuda_runtime_api.h>
#include <stdio.h>

#define CHECK(call)                                               \
  do {                                                            \
    cudaError_t error = (call);                                   \
    if (error != cudaSuccess) {                                   \
      printf("%s: %s\n", #call, cudaGetErrorString(error));       \
      return 1;                                                   \
    }                                                             \
  } while (0)

int main(void) {
  void* p;
  int value = 5, back = 0;
  CHECK(cudaMallocAsync(&p, 1 << 20, 0));
  CHECK(cudaMemcpyAsync(p, &value, sizeof value, cudaMemcpyHostToDevice, cudaStreamLegacy));
  CHECK(cudaMemcpy(&back, p, sizeof back, cudaMemcpyDeviceToHost));
  CHECK(cudaFreeAsync(p, 0));
  CHECK(cudaStreamSynchronize(0));
  CHECK(cudaMalloc(&p, 1 << 20));
  CHECK(cudaFree(p));
  if (back != value) return 2;
  puts("per thread and legacy: fine");
  return 0;
}

// forbid: leak invalid-free never-freed
// No mistake: device, pinned, pitched, managed and stream-ordered memory, each given back by its own kind of free.
#include "check.h"

static void round(cudaStream_t stream) {
  void *device, *pinned, *pitched, *managed, *ordered;
  size_t pitch;
  CHECK(cudaMalloc(&device, 1 << 20));
  CHECK(cudaMallocHost(&pinned, 1 << 20));
  CHECK(cudaMallocPitch(&pitched, &pitch, 1000, 100));
  CHECK(cudaMallocManaged(&managed, 1 << 16));
  CHECK(cudaMallocAsync(&ordered, 1 << 18, stream));
  CHECK(cudaMemcpyAsync(device, pinned, 1 << 20, cudaMemcpyHostToDevice, stream));
  CHECK(cudaFreeAsync(ordered, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaFree(managed));
  CHECK(cudaFree(pitched));
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFree(device));
}

int main() {
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  void* weights;
  CHECK(cudaMalloc(&weights, 8 << 20));
  for (int i = 0; i < 50; i++) round(stream);
  CHECK(cudaFree(weights));
  CHECK(cudaStreamDestroy(stream));
  std::puts("50 rounds");
}

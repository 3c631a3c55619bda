// Prints the nanoseconds of one allocation and its free on the simulated CUDA, 30 native frames deep: one 'NAME NS' a line.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

constexpr int kPairs = 20'000;
constexpr int kDepth = 30;

static void must(cudaError_t error) {
  if (error != cudaSuccess) std::puts(cudaGetErrorString(error)), std::exit(1);
}

template <typename Pair>
[[gnu::noinline]] static void deep(int frames, const Pair& pair) {
  if (frames > 1) {
    deep(frames - 1, pair);
  } else {
    for (int i = 0; i < kPairs; i++) pair();
  }
  asm volatile("");  // no tail call: each frame stays
}

template <typename Pair>
static void measure(const char* name, const Pair& pair) {
  deep(kDepth, pair);
  const auto began = std::chrono::steady_clock::now();
  deep(kDepth, pair);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
  std::printf("%s %.1f\n", name, took.count() / kPairs);
}

int main() {
  cudaStream_t stream;
  must(cudaStreamCreate(&stream));
  measure("cudaMalloc+cudaFree", [] {
    void* block;
    must(cudaMalloc(&block, 4096));
    must(cudaFree(block));
  });
  measure("cudaMallocAsync+cudaFreeAsync", [stream] {
    void* block;
    must(cudaMallocAsync(&block, 4096, stream));
    must(cudaFreeAsync(block, stream));
  });
  must(cudaStreamDestroy(stream));
}

// expect: forgotten-free/leak
// line: CHECK(cudaMalloc(&scores, kBoxes * sizeof(float)));
// Every frame of a detector takes three buffers and gives two of them back.
#include "check.h"

constexpr size_t kBoxes = 100'000;

static void detect(const float* image, size_t bytes) {
  float *input, *boxes, *scores;
  CHECK(cudaMalloc(&input, bytes));
  CHECK(cudaMalloc(&boxes, 4 * kBoxes * sizeof(float)));
  CHECK(cudaMalloc(&scores, kBoxes * sizeof(float)));
  CHECK(cudaMemcpy(input, image, bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(scores, 0, kBoxes * sizeof(float)));
  CHECK(cudaFree(boxes));
  CHECK(cudaFree(input));
}

int main() {
  static float image[64 * 1024];
  for (int frame = 0; frame < 100; frame++) detect(image, sizeof image);
  std::puts("100 frames");
}

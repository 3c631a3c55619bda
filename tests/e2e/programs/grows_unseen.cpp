// For some seconds: "streams" makes streams that it does not destroy, "steady" allocates and frees.
#include <unistd.h>

#include <cstring>

#include "check.h"

int main(int, char** argv) {
  void* weights;
  CHECK(cudaMalloc(&weights, 100 << 20));
  for (int i = 0; i < 250; i++) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    if (std::strcmp(argv[1], "streams") != 0) CHECK(cudaStreamDestroy(stream));
    usleep(24000);
  }
}

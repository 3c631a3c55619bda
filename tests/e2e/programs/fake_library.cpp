// Stands for cuBLAS and cuFFT: handles with a workspace, by the names and signatures of theirs. A cuBLAS handle brings one of
// cuBLASLt, and an event.
#include <cuda_runtime.h>

struct Handle {
  void* workspace;
  Handle* inner;
  cudaEvent_t event;
};

extern "C" {

int cublasLtCreate(void** handle) {
  *handle = new Handle{};
  return cudaMalloc(&static_cast<Handle*>(*handle)->workspace, 1 << 20);
}

int cublasLtDestroy(void* handle) {
  auto* is = static_cast<Handle*>(handle);
  const int result = cudaFree(is->workspace);
  delete is;
  return result;
}

int cublasCreate_v2(void** handle) {
  auto* made = new Handle{};
  *handle = made;
  void* inner;
  if (int failed = cublasLtCreate(&inner)) return failed;
  made->inner = static_cast<Handle*>(inner);
  if (int failed = cudaEventCreate(&made->event)) return failed;
  return cudaMalloc(&made->workspace, 4 << 20);
}

int cublasDestroy_v2(void* handle) {
  auto* is = static_cast<Handle*>(handle);
  cublasLtDestroy(is->inner);
  cudaEventDestroy(is->event);
  const int result = cudaFree(is->workspace);
  delete is;
  return result;
}

static int plans;
int cufftPlan1d(int* plan, int, int, int) { return *plan = plans++, 0; }  // the first one is number 0
int cufftDestroy(int) { return 0; }
}

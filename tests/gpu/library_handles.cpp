// A cuBLAS handle for each request, never destroyed, beside a cuFFT plan that is: the libraries as they are linked and looked up for real.
// expect: handle-leak/leak
// line: cublasCreate(&handle)
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cufft.h>

int main() {
  for (int i = 0; i < 40; i++) {
    cublasHandle_t handle;
    cufftHandle plan;
    void* block;
    if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS) return 1;
    if (cufftPlan1d(&plan, 1 << 16, CUFFT_C2C, 1) != CUFFT_SUCCESS || cufftDestroy(plan) != CUFFT_SUCCESS) return 2;
    if (cudaMalloc(&block, 4096) != cudaSuccess || cudaFree(block) != cudaSuccess) return 3;
  }
}

// Handles of CUDA's libraries, reached by linking (linked) or by look-up in a library that was opened out of sight (opened): one that is
// destroyed each time, and forty of which each is kept (leaks).
#include <dlfcn.h>

#include <string>

#include "check.h"

extern "C" {
int cublasCreate_v2(void** handle) __attribute__((weak));
int cublasDestroy_v2(void* handle) __attribute__((weak));
int cufftPlan1d(int* plan, int n, int type, int batch) __attribute__((weak));
int cufftDestroy(int plan) __attribute__((weak));
}

static decltype(&cublasCreate_v2) create;
static decltype(&cublasDestroy_v2) destroy;
static decltype(&cufftPlan1d) make_plan;
static decltype(&cufftDestroy) destroy_plan;

static void find(const char* library) {
  void* opened = library ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : nullptr;
  create = opened ? reinterpret_cast<decltype(create)>(dlsym(opened, "cublasCreate_v2")) : cublasCreate_v2;
  destroy = opened ? reinterpret_cast<decltype(destroy)>(dlsym(opened, "cublasDestroy_v2")) : cublasDestroy_v2;
  make_plan = opened ? reinterpret_cast<decltype(make_plan)>(dlsym(opened, "cufftPlan1d")) : cufftPlan1d;
  destroy_plan = opened ? reinterpret_cast<decltype(destroy_plan)>(dlsym(opened, "cufftDestroy")) : cufftDestroy;
}

int main(int count, char** argv) {
  find(count > 2 ? argv[2] : nullptr);
  const bool leaks = argv[1] == std::string("leaks");
  for (int i = 0; i < 40; i++) {
    void *handle, *block;
    int plan;
    if (create(&handle) != 0 || make_plan(&plan, 1024, 0x29, 1) != 0) return 1;
    CHECK(cudaMalloc(&block, 4096));
    CHECK(cudaFree(block));
    if (!leaks && destroy(handle) != 0) return 2;
    if (destroy_plan(plan) != 0) return 3;
  }
}

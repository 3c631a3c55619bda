// A shared runtime that says which one it is: built as two libcudart of different versions (VERSION), as two frameworks may
// bring them into one process.
#include <cstddef>

extern "C" {
__attribute__((visibility("default"))) int cudaMalloc(void** address, size_t) {
  *address = reinterpret_cast<void*>(VERSION);
  return 0;
}
struct cudaExtent {
  size_t width, height, depth;
};
struct cudaPitchedPtr {
  void* address;
  size_t pitch, width, height;
};
__attribute__((visibility("default"))) int cudaMalloc3D(cudaPitchedPtr* memory, cudaExtent extent) {
  *memory = {reinterpret_cast<void*>(VERSION), extent.width, extent.height, extent.depth};
  return 0;
}
}

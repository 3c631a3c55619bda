// Does a call of the runtime reach the runtime that its caller is linked with? A library linked with the fake libcudart of
// VERSION; hooks_main.cpp opens one for each of two versions.
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>

extern "C" {
struct cudaExtent {
  size_t width, height, depth;
};
struct cudaPitchedPtr {
  void* address;
  size_t pitch, width, height;
};
int cudaMalloc(void**, size_t);
int cudaMalloc3D(cudaPitchedPtr*, cudaExtent);
}

#define NAME_(version) RuntimeOf##version
#define NAME(version) NAME_(version)

namespace {

TEST(NAME(VERSION), call_reaches_the_callers_runtime) {
  for (int i = 0; i < 3; ++i) {
    void* address = nullptr;
    EXPECT_EQ(cudaMalloc(&address, 1), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(address), uintptr_t{VERSION});
  }
}

TEST(NAME(VERSION), structures_by_value_are_passed_on) {
  cudaPitchedPtr memory;
  EXPECT_EQ(cudaMalloc3D(&memory, {7, 8, 9}), 0);
  EXPECT_EQ(memory.pitch, 7u);
  EXPECT_EQ(memory.height, 9u);
}

}  // namespace

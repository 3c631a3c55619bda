// Are OpenGL's objects registered once for each call, without device memory, and gone with their context?
#include "sim_test.h"

namespace {

using RegisterBuffer = CUresult (*)(CUgraphicsResource*, unsigned, unsigned);
using RegisterImage = CUresult (*)(CUgraphicsResource*, unsigned, unsigned, unsigned);
constexpr unsigned kTexture2D = 0x0DE1;  // GL_TEXTURE_2D

struct Graphics : Sim {
  RegisterBuffer register_buffer = reinterpret_cast<RegisterBuffer>(look_up("cuGraphicsGLRegisterBuffer", 3000).address);
  RegisterImage register_image = driver_symbol<RegisterImage>("cuGraphicsGLRegisterImage");
  CUresult unregister(CUgraphicsResource resource) { return DRIVER(cuGraphicsUnregisterResource, 3000)(resource); }
};

TEST_F(Graphics, registered_until_unregistered) {
  CUgraphicsResource buffer = nullptr, image = nullptr;
  ASSERT_EQ(register_buffer(&buffer, 1, CU_GRAPHICS_REGISTER_FLAGS_READ_ONLY), CUDA_SUCCESS);
  ASSERT_EQ(register_image(&image, 1, kTexture2D, CU_GRAPHICS_REGISTER_FLAGS_SURFACE_LDST), CUDA_SUCCESS);
  EXPECT_NE(buffer, image);
  EXPECT_EQ(used_bytes(), baseline_);
  EXPECT_EQ(unregister(buffer), CUDA_SUCCESS);
  EXPECT_EQ(unregister(buffer), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(unregister(image), CUDA_SUCCESS);
}

TEST_F(Graphics, no_name_and_unknown_flags_are_refused) {
  CUgraphicsResource resource = nullptr;
  EXPECT_EQ(register_buffer(&resource, 0, 0), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(register_image(&resource, 0, kTexture2D, 0), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(register_buffer(nullptr, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(register_buffer(&resource, 1, CU_GRAPHICS_REGISTER_FLAGS_SURFACE_LDST), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Graphics, registrations_end_with_their_context) {
  CUgraphicsResource resource = nullptr;
  ASSERT_EQ(register_buffer(&resource, 1, 0), CUDA_SUCCESS);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(unregister(resource), CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace

// Whose code frames are, and what blocks are for.
#include "report/categories.h"

#include <gtest/gtest.h>

namespace vramtrack {
namespace {

class Categories : public testing::Test {
 protected:
  Categories() {
    heap.process.steps = 10;
    heap.spaces = {{Layer::kPytorch, Memory::kDevice, 0}, {Layer::kDriver, Memory::kDevice, 0}};
  }

  uint32_t python(const std::string& function, const std::string& file, int line = 1) {
    return add({FrameKind::kPython, 0, -1, {{function, file, line}}});
  }
  uint32_t marker(const std::string& name) { return add({FrameKind::kMarker, 0, -1, {{name, "", 0}}}); }
  uint32_t native(const std::string& module, std::vector<Location> locations) {
    Module loaded;
    loaded.path = module;
    heap.modules.push_back(loaded);
    return add({FrameKind::kNative, 0, static_cast<int>(heap.modules.size()) - 1, std::move(locations)});
  }
  std::string line_of(const Stack& stack) {
    auto at = user_line(heap, stack);
    return at ? at->file + ":" + std::to_string(at->line) : "";
  }
  std::string_view category_of(Stack stack, uint32_t died_within_step = 0) {
    Site site;
    site.stack = std::move(stack);
    site.allocations = 10;
    site.lifetime_steps[0] = died_within_step;
    return category(heap, site);
  }

  Heap heap;

 private:
  uint32_t add(Frame frame) {
    heap.frames.push_back(std::move(frame));
    return static_cast<uint32_t>(heap.frames.size() - 1);
  }
};

constexpr const char* kLinear = "/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py";
constexpr const char* kModule = "/venv/lib/python3.12/site-packages/torch/nn/modules/module.py";
constexpr const char* kAdam = "/venv/lib/python3.12/site-packages/torch/optim/adam.py";

TEST_F(Categories, user_line_is_the_innermost_frame_outside_packages) {
  Stack stack = {python("Linear.forward", kLinear, 114), python("_run", "/usr/lib/python3.11/contextlib.py"),
                 python("evaluate", "/home/me/train.py", 31), python("<module>", "/home/me/train.py", 80)};
  EXPECT_EQ(line_of(stack), "/home/me/train.py:31");
}

TEST_F(Categories, typed_code_is_the_users_and_frozen_code_is_not) {
  EXPECT_TRUE(is_user_frame(heap, heap.frames[python("<module>", "<stdin>")]));
  EXPECT_TRUE(is_user_frame(heap, heap.frames[python("f", "/tmp/ipykernel_12/3.py")]));
  EXPECT_FALSE(is_user_frame(heap, heap.frames[python("f", "<frozen importlib._bootstrap>")]));
}

TEST_F(Categories, project_called_pytorch_is_the_users) {
  EXPECT_TRUE(is_user_frame(heap, heap.frames[python("f", "/home/me/pytorch/utils/x.py")]));
  EXPECT_FALSE(is_user_frame(heap, heap.frames[python("f", "/home/me/pytorch/torch/nn/functional.py")]));
}

TEST_F(Categories, native_user_line_skips_libraries_and_inlined_headers) {
  Stack stack = {native("/usr/local/cuda/lib64/libcudart.so.12", {{"cudaMalloc", "", 0}}),
                 native("/home/me/sim", {{"std::vector::resize", "/usr/include/c++/12/vector", 7}, {"grow", "/home/me/a.cpp", 9}}),
                 native("/home/me/sim", {{"main", "/home/me/a.cpp", 20}})};
  EXPECT_EQ(line_of(stack), "/home/me/a.cpp:9");
}

TEST_F(Categories, runtime_linked_into_the_program_is_not_the_users) {
  Stack stack = {native("/home/me/sim", {{"cudart::cudaApiMalloc", "", 0}}), native("/home/me/sim", {{"cudaMalloc", "", 0}}),
                 native("/home/me/sim", {{"allocate_buffers", "", 0}})};
  EXPECT_EQ(user_line(heap, stack)->function, "allocate_buffers");
}

TEST_F(Categories, python_line_before_native_line) {
  Stack stack = {native("/home/me/ext.so", {{"kernel", "/home/me/ext.cpp", 5}}), python("f", "/home/me/train.py", 3)};
  EXPECT_EQ(line_of(stack), "/home/me/train.py:3");
}

TEST_F(Categories, no_user_frame_gives_no_line) { EXPECT_EQ(user_line(heap, {python("f", kLinear)}), std::nullopt); }

TEST_F(Categories, blocks_by_phase) {
  uint32_t user = python("main", "/home/me/train.py");
  EXPECT_EQ(category_of({python("Module._apply", kModule), user}), "parameter");
  EXPECT_EQ(category_of({python("reset_parameters", kLinear), user}), "parameter");
  EXPECT_EQ(category_of({python("Linear.forward", kLinear), python("Module._call_impl", kModule), user}), "activation");
  EXPECT_EQ(category_of({marker("AddmmBackward0"), marker("backward"), user}), "gradient");
  EXPECT_EQ(category_of({marker("AddmmBackward0"), marker("backward"), user}, 9), "temporary");
  EXPECT_EQ(category_of({python("Adam._init_group", kAdam), user}), "optimizer state");
  EXPECT_EQ(category_of({python("pin_memory", "/x/site-packages/torch/utils/data/_utils/pin_memory.py"), user}), "input");
  EXPECT_EQ(category_of({user}), "other");
}

TEST_F(Categories, blocks_of_the_driver_have_none) {
  Site site;
  site.space = 1;
  EXPECT_EQ(category(heap, site), "");
}

TEST_F(Categories, owner_names_the_package_or_library) {
  EXPECT_EQ(owner(heap, heap.frames[python("f", kLinear)]), "torch");
  EXPECT_EQ(owner(heap, heap.frames[python("f", "/x/site-packages/numpy/core/a.py")]), "numpy");
  EXPECT_EQ(owner(heap, heap.frames[native("/x/libtorch_cpu.so", {})]), "torch");
  EXPECT_EQ(owner(heap, heap.frames[native("/x/libcudart.so.12", {})]), "libcudart");
}

}  // namespace
}  // namespace vramtrack

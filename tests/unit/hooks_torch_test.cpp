// Do PyTorch's reports reach the recording, and its own functions after it? This file is a library linked with the fake
// libc10.so and libtorch_cpu.so, as libc10_cuda.so and libtorch_python.so are; hooks_main.cpp opens it RTLD_LOCAL.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdexcept>

#include "tests/unit/fake_c10.h"

namespace {

constexpr c10::Device kCpu{0, -1}, kCuda{1, 3};

struct TorchHooks : testing::Test {
  TorchHooks() {
    reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "vramtrack_fake_reset"))();
    c10::memoryProfilingEnabled();  // where the originals are found
    c10::heard.clear();
  }
  static std::string events() {
    std::string all = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "vramtrack_fake_events"))();
    const std::string found = "torch: found\n";  // comes with the first block, whichever test makes it
    return all.starts_with(found) ? all.substr(found.size()) : all;
  }
};

TEST_F(TorchHooks, block_is_recorded_and_forwarded) {
  c10::reportMemoryUsageToProfiler(reinterpret_cast<void*>(0x100), 512, 1024, 2048, kCuda);
  c10::reportMemoryUsageToProfiler(reinterpret_cast<void*>(0x100), -512, 512, 2048, kCuda);
  EXPECT_EQ(events(),
            "torch: block 100 size 512 allocated 1024 reserved 2048 device 1:3\n"
            "torch: block 100 size -512 allocated 512 reserved 2048 device 1:3\n");
  EXPECT_EQ(c10::heard, "block 512 on 3\nblock -512 on 3\n");
}

TEST_F(TorchHooks, cpu_blocks_are_recorded_only_when_asked_for) {
  const bool asked = getenv("VRAMTRACK_CPU");
  EXPECT_EQ(c10::memoryProfilingEnabled(), asked);
  c10::reportMemoryUsageToProfiler(reinterpret_cast<void*>(0x100), 8, 0, 0, kCpu);
  EXPECT_EQ(events(), asked ? "torch: block 100 size 8 allocated 0 reserved 0 device 0:-1\n" : "");
  EXPECT_EQ(c10::heard, "block 8 on -1\n");
}

TEST_F(TorchHooks, the_current_stream_can_be_asked_for) {
  auto* current = reinterpret_cast<long (*)(int)>(dlsym(RTLD_DEFAULT, "vramtrack_fake_current_stream"));
  EXPECT_EQ(current(3), c10::cuda::getCurrentCUDAStream(3).id());
  EXPECT_EQ(current(3), (1l << 40) + 3);
}

TEST_F(TorchHooks, out_of_memory_is_recorded_and_forwarded) {
  c10::reportOutOfMemoryToProfiler(4096, 1, 2, kCuda);
  EXPECT_EQ(events(), "torch: out of memory size 4096 device 1:3\n");
  EXPECT_EQ(c10::heard, "oom 4096\n");
}

TEST_F(TorchHooks, reports_of_an_unsupported_version_are_forwarded) {
  c10::reportMemoryUsageToProfiler(reinterpret_cast<void*>(0x100), 512, kCuda);
  EXPECT_EQ(c10::heard, "old block 512\n");
}

TEST_F(TorchHooks, optimizer_step_begins_a_step) {
  using torch::autograd::profiler::record_function_enter_new;
  EXPECT_EQ(*record_function_enter_new("Optimizer.zero_grad#Adam.zero_grad", "x").name, "Optimizer.zero_grad#Adam.zero_gradx");
  EXPECT_EQ(*record_function_enter_new("short", std::nullopt).name, "short");
  EXPECT_EQ(events(), "");
  EXPECT_EQ(*record_function_enter_new("Optimizer.step#Adam.step", std::nullopt).name, "Optimizer.step#Adam.step");
  EXPECT_EQ(events(), "torch: step\n");
}

TEST_F(TorchHooks, backward_gets_its_arguments_and_returns_its_result) {
  torch::autograd::Engine engine;
  EXPECT_EQ(engine.execute({{1}, {2}, {3}}, {}, true, false, true, {{1}, {2}}).size(), 13u);
  EXPECT_EQ(events(), "torch: backward begins\ntorch: backward ends\n");
}

TEST_F(TorchHooks, exception_passes_through_backward) {
  torch::autograd::Engine engine;
  EXPECT_THROW(engine.execute({}, {}, true, false, true, {}), std::runtime_error);
  EXPECT_EQ(events(), "torch: backward begins\n");
}

}  // namespace

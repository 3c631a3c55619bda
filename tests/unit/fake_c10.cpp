// The functions of libc10.so and libtorch_cpu.so that the hooks replace, under PyTorch's own mangled names.
//
// Built three times: with FAKE_TORCH_CPU as libtorch_cpu.so, with FAKE_C10_CUDA as libc10_cuda.so, else as libc10.so.
#include "tests/unit/fake_c10.h"

#include <cstring>
#include <stdexcept>

#ifdef FAKE_TORCH_CPU
namespace torch::autograd {

variable_list Engine::execute(const edge_list& roots, const variable_list&, bool keep_graph, bool create_graph,
                              bool accumulate_grad, const edge_list& outputs) {
  if (roots.empty()) throw std::runtime_error("no roots");
  // Every argument comes back in the result, so that a lost one shows.
  const bool right = keep_graph && !create_graph && accumulate_grad && outputs.size() == 2;
  return variable_list(roots.size() + (right ? 10 : 0));
}

namespace profiler {
Record record_function_enter_new(const std::string& name, const std::optional<std::string>& args) {
  return {std::make_unique<std::string>(name + (args ? *args : ""))};
}
}  // namespace profiler
}  // namespace torch::autograd
#elif defined FAKE_C10_CUDA
c10::cuda::CUDAStream c10::cuda::getCurrentCUDAStream(int8_t device) { return CUDAStream(Stream({1, device}, (1l << 40) + device)); }
#else
namespace c10 {
std::string heard;

bool memoryProfilingEnabled() { return false; }
void reportMemoryUsageToProfiler(void*, int64_t size, size_t, size_t, Device device) {
  heard += "block " + std::to_string(size) + " on " + std::to_string(device.index) + "\n";
}
void reportMemoryUsageToProfiler(void*, int64_t size, Device) { heard += "old block " + std::to_string(size) + "\n"; }
void reportOutOfMemoryToProfiler(int64_t size, size_t, size_t, Device) { heard += "oom " + std::to_string(size) + "\n"; }
}  // namespace c10
#endif

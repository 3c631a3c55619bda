// PyTorch's declarations, as far as their mangled names and their way of passing values go.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace c10 {
struct Device {
  int8_t type, index;
};
bool memoryProfilingEnabled();
void reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, Device);
void reportMemoryUsageToProfiler(void*, int64_t, Device);
void reportOutOfMemoryToProfiler(int64_t, size_t, size_t, Device);
extern std::string heard;  // what reached the originals

class Stream {
 public:
  Stream(Device device, int64_t id) : device_(device), id_(id) {}
  int64_t id() const { return id_; }

 private:
  Device device_;
  int64_t id_;
};
namespace cuda {
class CUDAStream {
 public:
  explicit CUDAStream(Stream stream) : stream_(stream) {}
  int64_t id() const { return stream_.id(); }

 private:
  Stream stream_;
};
CUDAStream getCurrentCUDAStream(int8_t device);
}  // namespace cuda
}  // namespace c10

namespace at {
struct Tensor {
  std::shared_ptr<int> impl;
};
}  // namespace at

namespace torch::autograd {
struct Edge {
  int function;
};
using edge_list = std::vector<Edge>;
using variable_list = std::vector<at::Tensor>;
struct Engine {
  variable_list execute(const edge_list&, const variable_list&, bool, bool, bool, const edge_list&);
};
namespace profiler {
struct Record {
  std::unique_ptr<std::string> name;
};
Record record_function_enter_new(const std::string&, const std::optional<std::string>&);
}  // namespace profiler
}  // namespace torch::autograd
#pragma GCC visibility pop

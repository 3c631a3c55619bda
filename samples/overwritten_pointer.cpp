// expect: forgotten-free/leak
// line: CHECK(cudaMalloc(&data_, bytes));
// A buffer that grows or shrinks with the batch; the pointer to the old one is overwritten. The destructor frees the last one.
#include "check.h"

class Buffer {
 public:
  ~Buffer() { cudaFree(data_); }

  void* reserve(size_t bytes) {
    if (bytes == size_) return data_;
    CHECK(cudaMalloc(&data_, bytes));
    size_ = bytes;
    return data_;
  }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

int main() {
  Buffer buffer;
  for (int batch = 0; batch < 200; batch++) {
    const size_t samples = batch % 10 == 9 ? 48 : 64;  // the last batch of an epoch is smaller
    CHECK(cudaMemset(buffer.reserve(samples * 16'384), 0, samples * 16'384));
  }
  std::puts("200 batches");
}

// PyTorch's own functions that tell of its memory: blocks, out of memory, optimiser steps, backward.
//
// They are C++ functions of libc10.so and libtorch_cpu.so, called across a library boundary and so replaced by our exports of
// the same mangled names. Every one is forwarded, or torch.profiler would go blind. Types of PyTorch's are not included: what
// matters is how their values are passed, which is written beside each.
#include "interpose/torch_hooks.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "interpose/call.h"
#include "interpose/events.h"
#include "interpose/loader.h"
#include "interpose/settings.h"

using namespace vramtrack;

namespace {

#define MEMORY_PROFILING_ENABLED "_ZN3c1022memoryProfilingEnabledEv"
#define REPORT_BLOCK_UNSUPPORTED "_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE"
#define REPORT_BLOCK_SIGNED "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE"
#define REPORT_BLOCK "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
#define REPORT_OUT_OF_MEMORY_SIGNED "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE"
#define REPORT_OUT_OF_MEMORY "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"
#define STD_STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define ENTER_RECORD_C10 "_ZN5torch8autograd8profiler25record_function_enter_newERK" STD_STRING "RKN3c108optionalIS7_EE"
#define ENTER_RECORD_STD "_ZN5torch8autograd8profiler25record_function_enter_newERK" STD_STRING "RKSt8optionalIS7_E"
#define ENGINE_EXECUTE \
  "_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_"

// A function of PyTorch's behind our own. Relaxed throughout: code needs no publishing, and all threads find the same.
class Original {
 public:
  constexpr Original(const char* library, const char* name) : library_(library), name_(name) {}

  // Null until found. Takes no lock: for callers that hold the allocator's.
  template <typename Function>
  Function* if_found() const {
    return reinterpret_cast<Function*>(function_.load(std::memory_order_relaxed));
  }

  // Looks for it if need be: where PyTorch's own builds have it, else where the caller's library is linked to.
  template <typename Function>
  Function* found(const void* caller) {
    if (!function_.load(std::memory_order_relaxed)) {
      const OwnWork work;
      if (void* library = loaded_object(library_)) find_in(library);
      if (!function_.load(std::memory_order_relaxed)) {
        void* function = found_from(caller, name_);
        if (function) keep_loaded(function);
        function_.store(function, std::memory_order_relaxed);
      }
    }
    return if_found<Function>();
  }

  void find_in(void* library) { function_.store(real_dlsym()(library, name_), std::memory_order_relaxed); }

 private:
  const char* library_;
  const char* name_;
  std::atomic<void*> function_{nullptr};
};

constexpr const char* kC10 = "libc10.so";
constexpr const char* kTorch = "libtorch_cpu.so";

constinit Original profiling_enabled{kC10, MEMORY_PROFILING_ENABLED};
constinit Original report_block_unsupported{kC10, REPORT_BLOCK_UNSUPPORTED};
constinit Original report_block_signed{kC10, REPORT_BLOCK_SIGNED};
constinit Original report_block{kC10, REPORT_BLOCK};
constinit Original report_out_of_memory_signed{kC10, REPORT_OUT_OF_MEMORY_SIGNED};
constinit Original report_out_of_memory{kC10, REPORT_OUT_OF_MEMORY};
constinit Original enter_record_c10{kTorch, ENTER_RECORD_C10};
constinit Original enter_record_std{kTorch, ENTER_RECORD_STD};
constinit Original engine_execute{kTorch, ENGINE_EXECUTE};
constinit Original get_current_stream{"libc10_cuda.so", "_ZN3c104cuda20getCurrentCUDAStreamEa"};

// c10::cuda::CUDAStream, returned in two registers: a c10::Device and a c10::StreamId.
struct CudaStream {
  uint64_t device;
  int64_t id;
};

// Its thread-local variables are there: the allocator asked for the stream itself before it took the memory.
int64_t current_stream(int device) { return get_current_stream.if_found<CudaStream(int8_t)>()(static_cast<int8_t>(device)).id; }

// c10::Device: two bytes in a register, whose other bits mean nothing. The whole register is passed on.
int device_type(uint64_t device) { return static_cast<int8_t>(device); }
int device_index(uint64_t device) { return static_cast<int8_t>(device >> 8); }

constexpr int kCpu = 0, kCuda = 1;  // c10::DeviceType; ROCm calls itself CUDA

// torch.profiler turns CPU reports on too, and they are not ours then.
bool wanted(uint64_t device) {
  const int type = device_type(device);
  return (type == kCuda || (type == kCpu && settings().cpu)) && recording_wanted();
}

void tell_unsupported() {
  static constinit std::atomic<bool> told{false};
  if (!told.exchange(true, std::memory_order_relaxed)) torch_unsupported();
}

TorchReport torch_report(uint64_t address, int64_t size, uint64_t allocated, uint64_t reserved, uint64_t device) {
  return {address, size, allocated, reserved, device_type(device), device_index(device)};
}

// The reporters run under the allocator's lock, where the loader's must not be taken: a thread that is loading a library
// whose constructor allocates holds them the other way round. So they never look for the original. It was found before: a
// CPU tensor (memoryProfilingEnabled) or a look-up of the driver's functions precedes the first block on a device. If not,
// torch.profiler misses a block, we do not.
using ReportBlock = void(void*, int64_t, uint64_t, uint64_t, uint64_t);

void block_reported(const Original& original, CallSite site, void* address, int64_t size, uint64_t allocated,
                    uint64_t reserved, uint64_t device) {
  if (wanted(device)) {
    torch_block(torch_report(reinterpret_cast<uint64_t>(address), size, allocated, reserved, device), site);
  }
  if (auto* report = original.if_found<ReportBlock>()) report(address, size, allocated, reserved, device);
}

using ReportOutOfMemory = void(int64_t, uint64_t, uint64_t, uint64_t);

void out_of_memory_reported(const Original& original, CallSite site, int64_t size, uint64_t allocated, uint64_t reserved,
                            uint64_t device) {
  if (wanted(device)) {
    torch_out_of_memory(torch_report(0, size, allocated, reserved, device), site);
  }
  if (auto* report = original.if_found<ReportOutOfMemory>()) report(size, allocated, reserved, device);
}

// libstdc++'s std::string begins with the pointer and the length.
struct StringLayout {
  const char* data;
  size_t length;
};

void record_entered(const StringLayout& name) {
  if (std::string_view(name.data, name.length).starts_with("Optimizer.step#") && recording_wanted()) {
    step_begins(format::StepSource::kOptimizer);
  }
}

// Stands for a result that is returned through a hidden pointer because it has a destructor. Our caller's pointer goes
// straight to the original; we never have such an object. All zero, it is an empty vector or pointer.
template <size_t words>
struct ReturnedInMemory {
  void* content[words];
  ~ReturnedInMemory();
};

using Record = ReturnedInMemory<1>;     // c10::intrusive_ptr
using Gradients = ReturnedInMemory<3>;  // std::vector

using EnterRecord = Record(const StringLayout& name, const void* arguments);
using Execute = Gradients(void* engine, const void* roots, const void* inputs, bool keep_graph, bool create_graph,
                          bool accumulate_grad, const void* outputs);

}  // namespace

void vramtrack::find_torch() {
  static constinit std::atomic<bool> found{false};
  if (found.load(std::memory_order_relaxed)) return;
  const OwnWork work;
  void* c10 = loaded_object(kC10);
  if (!c10) return;
  for (Original* original : {&profiling_enabled, &report_block_unsupported, &report_block_signed, &report_block,
                             &report_out_of_memory_signed, &report_out_of_memory}) {
    original->find_in(c10);
  }
  if (void* c10_cuda = loaded_object("libc10_cuda.so")) get_current_stream.find_in(c10_cuda);  // loaded together with libc10
  if (get_current_stream.if_found<void>()) torch_streams_known(current_stream);
  found.store(true, std::memory_order_relaxed);
}

extern "C" {

#define EXPORTED(name) __asm__(name) __attribute__((visibility("default")))

bool memory_profiling_enabled() EXPORTED(MEMORY_PROFILING_ENABLED);
void report_block_1_6(void*, int64_t, uint64_t device) EXPORTED(REPORT_BLOCK_UNSUPPORTED);
void report_block_1_10(void*, int64_t, uint64_t, uint64_t, uint64_t device) EXPORTED(REPORT_BLOCK_SIGNED);
void report_block_2_0(void*, int64_t, uint64_t, uint64_t, uint64_t device) EXPORTED(REPORT_BLOCK);
void out_of_memory_1_10(int64_t, uint64_t, uint64_t, uint64_t device) EXPORTED(REPORT_OUT_OF_MEMORY_SIGNED);
void out_of_memory_2_0(int64_t, uint64_t, uint64_t, uint64_t device) EXPORTED(REPORT_OUT_OF_MEMORY);
Record enter_record_1_13(const StringLayout&, const void*) EXPORTED(ENTER_RECORD_C10);
Record enter_record_2_6(const StringLayout&, const void*) EXPORTED(ENTER_RECORD_STD);
Gradients execute_backward(void*, const void*, const void*, bool, bool, bool, const void*) EXPORTED(ENGINE_EXECUTE);

// Asked before every block on the CPU, under no lock. Answering true makes the allocator report it.
bool memory_profiling_enabled() {
  find_torch();
  prepare_recording();
  auto* original = profiling_enabled.if_found<bool()>();
  const bool by_the_program = original && original();
  return by_the_program || (settings().cpu && recording_wanted());
}

// PyTorch 1.6 to 1.9 report their own record of the block, not its address.
void report_block_1_6(void* block, int64_t size, uint64_t device) {
  if (wanted(device)) tell_unsupported();
  if (auto* report = report_block_unsupported.if_found<void(void*, int64_t, uint64_t)>()) report(block, size, device);
}

void report_block_1_10(void* address, int64_t size, uint64_t allocated, uint64_t reserved, uint64_t device) {
  block_reported(report_block_signed, VRAMTRACK_CALL_SITE, address, size, allocated, reserved, device);
}

void report_block_2_0(void* address, int64_t size, uint64_t allocated, uint64_t reserved, uint64_t device) {
  block_reported(report_block, VRAMTRACK_CALL_SITE, address, size, allocated, reserved, device);
}

void out_of_memory_1_10(int64_t size, uint64_t allocated, uint64_t reserved, uint64_t device) {
  out_of_memory_reported(report_out_of_memory_signed, VRAMTRACK_CALL_SITE, size, allocated, reserved, device);
}

void out_of_memory_2_0(int64_t size, uint64_t allocated, uint64_t reserved, uint64_t device) {
  out_of_memory_reported(report_out_of_memory, VRAMTRACK_CALL_SITE, size, allocated, reserved, device);
}

Record enter_record_1_13(const StringLayout& name, const void* arguments) {
  record_entered(name);
  auto* original = enter_record_c10.found<EnterRecord>(__builtin_return_address(0));
  return original ? original(name, arguments) : Record{};
}

Record enter_record_2_6(const StringLayout& name, const void* arguments) {
  record_entered(name);
  auto* original = enter_record_std.found<EnterRecord>(__builtin_return_address(0));
  return original ? original(name, arguments) : Record{};
}

// The backward pass. Exceptions pass through without running our destructor: BackwardScope copes.
Gradients execute_backward(void* engine, const void* roots, const void* inputs, bool keep_graph, bool create_graph,
                           bool accumulate_grad, const void* outputs) {
  auto* original = engine_execute.found<Execute>(__builtin_return_address(0));
  if (!original) return {};
  const BackwardScope scope(VRAMTRACK_CALL_SITE);
  return original(engine, roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
}

}  // extern "C"

// Which error does a thread see last, and what is it called?
#include <atomic>

#include "runtime_driver.h"

// A CUresult is turned into a cudaError_t by a cast.
#define ERROR(driver, runtime, description) static_assert(int{driver} == int{runtime});
#include "errors.inc"
#undef ERROR

namespace sim_runtime {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
std::atomic<cudaError_t> sticky{cudaSuccess};

// After one of these the context is broken and only a reset helps.
bool breaks_context(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure: return true;
    default: return false;
  }
}

struct ErrorRow {
  cudaError_t error;
  const char* name;
  const char* description;
};

constexpr ErrorRow kErrors[] = {
#define ERROR(driver, runtime, description) {runtime, #runtime, description},
#include "errors.inc"
#undef ERROR
    // The runtime's own.
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorInvalidChannelDescriptor, "cudaErrorInvalidChannelDescriptor", "invalid channel descriptor"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
};

const ErrorRow* find(cudaError_t error) {
  for (const ErrorRow& row : kErrors)
    if (row.error == error) return &row;
  return nullptr;
}

}  // namespace

cudaError_t sticky_error() { return sticky.load(std::memory_order_relaxed); }

cudaError_t record(cudaError_t error) {
  if (error == cudaSuccess || error == cudaErrorNotReady) return error;
  last_error = error;
  if (breaks_context(error)) sticky.store(error, std::memory_order_relaxed);
  return error;
}

}  // namespace sim_runtime

using namespace sim_runtime;

cudaError_t cudaGetLastError() {
  cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  cudaError_t broken = sticky_error();
  return broken != cudaSuccess ? broken : last_error;
}

cudaError_t cudaDeviceReset() {
  sticky.store(cudaSuccess, std::memory_order_relaxed);
  return record(reset_device());
}

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorRow* row = find(error);
  return row ? row->name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorRow* row = find(error);
  return row ? row->description : "unrecognized error code";
}

// What did the user ask the simulated driver to be? Everything comes from the environment, read once at first use:
//
//   VRAMTRACK_SIM_DEVICES   number of devices, 0 to 64, default 1
//   VRAMTRACK_SIM_MEMORY    memory of each device, bytes or with a suffix K, M, G; default 8G. Address space is reserved, host
//                           memory is only committed where a program writes.
//   VRAMTRACK_SIM_USAGE     a directory: what each process uses is written there, a file for each, for the simulated NVML beside it
//                           (libnvidia-ml.so.1). To what is allocated come the next two.
//   VRAMTRACK_SIM_CONTEXT   what a process's use of a device costs, as VRAMTRACK_SIM_MEMORY; default 0
//   VRAMTRACK_SIM_STREAM    the same for each stream
//   VRAMTRACK_SIM_FAIL      comma-separated rules, each NAME:N[+][:ERROR]. NAME is an exported driver function
//                           ("cuMemAlloc_v2", "cuMemAllocAsync_ptsz"). Its Nth call fails, counted from 1 over the whole
//                           process; with "+" every call from the Nth on. ERROR is the CUresult as a number or by name,
//                           default CUDA_ERROR_OUT_OF_MEMORY. A failing call has no effect at all.
//
// Examples: VRAMTRACK_SIM_FAIL=cuMemAlloc_v2:3
//           VRAMTRACK_SIM_FAIL=cuMemFree_v2:1:CUDA_ERROR_DEINITIALIZED,cuMemAllocAsync:10+:2
#pragma once

#include <cstddef>
#include <string_view>

#include "cuda_driver_api.h"

namespace sim {

struct Settings {
  int device_count = 1;
  size_t device_bytes = size_t{8} << 30;
  bool any_failure_rule = false;
  const char* usage_directory = nullptr;
  size_t context_bytes = 0, stream_bytes = 0;
};

const Settings& settings();

// The error the rules want this call of `function` to return, CUDA_SUCCESS for none. Counts the call. Thread-safe.
CUresult requested_failure(std::string_view function);

}  // namespace sim

// What do all wrappers of the driver have in common? One allocation, one free, one handle, each told to the recording at the right
// moment of its call.
//
// Our own questions to the driver (which device, whose context) are cheap queries of the thread's state. They are asked before
// the real call or after it succeeded, never after it failed: a program's error path sees no CUDA call of ours.
#pragma once

#include "interpose/call.h"
#include "interpose/driver_api.h"
#include "interpose/events.h"
#include "interpose/lookup.h"

// The real function of that name, with its type.
#define VRAMTRACK_REAL(name) \
  reinterpret_cast<decltype(&name)>(::vramtrack::real_driver_function(::vramtrack::DriverFunction::name))

namespace vramtrack {

// The functions with the suffix _ptsz take stream 0 for the thread's own default stream, the others for the legacy one.
enum class DefaultStream { kLegacy, kPerThread };

// The graph that a stream is capturing into; null if it is not. Its allocations and frees are nodes then: nothing is allocated or
// freed.
CUgraph captured_graph(CUstream, DefaultStream);

// An allocation on its way to the driver:
//     const PendingAllocation allocation(Kind::kDevice, size);
//     return allocation.finish(real(address, size), address);
class PendingAllocation {
 public:
  PendingAllocation(format::Kind kind, uint64_t size);

  template <typename Address>
  CUresult finish(CUresult result, Address* address) const {
    return finish(result, address, size_);
  }
  // `size` is what the call really gave, where that is known only now.
  template <typename Address>
  CUresult finish(CUresult result, Address* address, uint64_t size) const {
    if (result != CUDA_SUCCESS) {
      refused(result);
    } else if (address && *address) {
      succeeded((uint64_t)*address, size);  // an integer or a handle
    }
    return result;
  }

  // Stream-ordered: `pool` null means the device's current one. While the stream is capturing it is a graph's node.
  CUresult finish_on_stream(CUresult result, const CUdeviceptr* address, CUmemoryPool pool, CUstream stream,
                            DefaultStream default_stream) const;

 private:
  bool on_device() const { return kind_ != format::Kind::kPinned && kind_ != format::Kind::kRegistered; }
  void refused(CUresult) const;
  void succeeded(uint64_t address, uint64_t size) const;
  void record(int device, uint64_t address, uint64_t size, uint64_t owner) const;

  format::Kind kind_;
  int device_ = -1;  // asked for before the call: a refused allocation has one too
  uint64_t size_;    // asked for
  uint64_t began_ns_ = 0;  // 0 = not timed
  bool wanted_;
};

// So many bytes more of a pool are in use, or less; what it holds by now is asked for from time to time. After a call that succeeded,
// and not while a stream is capturing.
void ask_pool(CUmemoryPool, int64_t change);
void ask_graph_pool(int device);
void tell_threshold(CUmemoryPool, uint64_t bytes);

// Calls the real free function with everything around it. Freeing null is no event.
template <typename Address, typename Function, typename... Arguments>
CUresult freed(FreeFamily family, Address address, Function real, Arguments... arguments) {
  if (!address) return real(arguments...);
  PendingFree pending((uint64_t)address, family);
  const CUresult result = real(arguments...);
  pending.finish(result);
  if (pending.pool() && result == CUDA_SUCCESS) ask_pool((CUmemoryPool)pending.pool(), -static_cast<int64_t>(pending.size()));
  return result;
}

// Tells of a handle that was made, and answers `result`.
CUresult told_handle(format::Kind, CUresult result, uint64_t handle);
template <typename Handle>
CUresult made(format::Kind kind, CUresult result, const Handle* handle) {
  return told_handle(kind, result, result == CUDA_SUCCESS && handle ? (uint64_t)*handle : 0);
}

// Calls the real function that destroys a handle.
template <typename Handle, typename Function>
CUresult destroyed(format::Kind kind, Handle handle, Function real) {
  PendingFree pending((uint64_t)handle, kind);
  const CUresult result = real(handle);
  pending.finish(result);
  return result;
}

// A context that was made, or is used once more.
void context_in_use(int device, uint64_t context);

// Of memory that handles refer to; sizes and devices that the call does not tell are asked for.
void tell_counted_memory(const CountedMemoryReport&);
void tell_imported_memory(CUmemGenericAllocationHandle);
void tell_opened_memory(CUdeviceptr);
void tell_refused(const RefusedAllocation&);
void tell_user_object(CUuserObject, unsigned references);

int device_of_memory(CUmemGenericAllocationHandle);  // ordinal; -1 = host memory
int device_at(CUdeviceptr);      // -1 = the driver does not tell
uint64_t size_at(CUdeviceptr);  // of the allocation around it; 0 = the driver does not tell

}  // namespace vramtrack

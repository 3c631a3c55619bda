// What does the simulated machine consist of, and how does a driver call get at it?
//
// One process-wide Machine under one mutex. Device memory is host memory in a reserved range per device, so copies and sets
// work on it; how much of it is in use is an own count, so that address space (several times the device's memory) never
// fragments a device that still has memory. Work is done when the call that asks for it returns; streams only matter for
// capture. Handles are pointers to the structs below and looked up before use, so stale ones are errors, not crashes.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda_driver_api.h"
#include "range_allocator.h"
#include "settings.h"

struct CaptureSequence;

namespace sim {

constexpr int kDriverVersion = 13000;
constexpr size_t kAlignment = 512;               // what cudaMalloc's addresses and our accounting are multiples of
constexpr size_t kPageBytes = 4096;              // of pinned host memory
constexpr size_t kHostArenaBytes = size_t{64} << 30;  // address space of all pinned, managed and pooled host memory
constexpr int kMultiprocessors = 16;             // of each device
constexpr size_t kPoolChunkBytes = size_t{32} << 20;  // by which pools grow, as seen on real ones

constexpr size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

enum class BlockKind { kLinear, kManaged, kHost, kRegistered, kPool, kGraph, kMapped, kImported };

// An allocation the program can point into.
struct Block {
  size_t size_bytes;      // as asked
  BlockKind kind;
  int device;
  CUcontext owner;        // frees it when destroyed; null for pool, graph and mapped memory, which outlives contexts
  CUmemoryPool pool;      // kPool, and kImported if it came through one
  unsigned flags;         // of cuMemHostAlloc, cuMemHostRegister, cuMemAllocManaged
  unsigned long long id;  // CU_POINTER_ATTRIBUTE_BUFFER_ID, never reused
};

struct Device {
  RangeAllocator arena;
  size_t total_bytes = 0;
  size_t used_bytes = 0;  // <= total_bytes
  size_t graph_used_bytes = 0, graph_used_high_bytes = 0;          // allocated by launched graphs
  size_t graph_reserved_bytes = 0, graph_reserved_high_bytes = 0;  // the same and what is kept until a trim; used_bytes has it
  CUcontext primary = nullptr;      // created at the first retain, revived at later ones, never deleted
  int primary_retains = 0;
  unsigned primary_flags = 0;
  CUmemoryPool default_pool = nullptr;
  CUmemoryPool current_pool = nullptr;
};

// Handles of one type. Owns what they point to.
template <class T>
class Registry {
 public:
  T* add(std::unique_ptr<T> object) {
    T* handle = object.get();
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  bool contains(const T* handle) const { return objects_.count(const_cast<T*>(handle)) != 0; }
  bool remove(T* handle) { return objects_.erase(handle) != 0; }
  template <class Predicate>
  void remove_if(Predicate predicate) {
    std::erase_if(objects_, [&](const auto& entry) { return predicate(*entry.second); });
  }
  size_t size() const { return objects_.size(); }
  template <class Visit>
  void for_each(Visit visit) {
    for (auto& entry : objects_) visit(*entry.second);
  }

 private:
  std::unordered_map<T*, std::unique_ptr<T>> objects_;
};

struct Machine {
  std::mutex lock;  // guards everything below but `initialised` and `forked`
  std::atomic<bool> initialised{false};
  std::atomic<bool> forked{false};  // this process is a child of the one that called cuInit: nothing works any more
  std::vector<Device> devices;
  RangeAllocator host_arena;  // pinned, managed and pooled host memory
  std::map<Address, Block> blocks;
  unsigned long long next_block_id = 1;
  unsigned long long next_pool_id = 1;
  unsigned long long next_stream_id = 1;
  unsigned long long next_capture_id = 1;

  std::vector<std::shared_ptr<CaptureSequence>> captures;  // running now

  Registry<CUctx_st> contexts;  // destroyed ones stay, marked dead
  Registry<CUgreenCtx_st> green_contexts;  // the same
  Registry<CUdevResourceDesc_st> resource_descriptors;  // for good: there is no call to destroy one
  Registry<CUmemPoolHandle_st> pools;
  Registry<CUstream_st> streams;
  Registry<CUevent_st> events;
  Registry<CUarray_st> arrays;
  Registry<CUmipmappedArray_st> mipmapped_arrays;
  Registry<CUextMemory_st> external_memories;
  Registry<CUgraphicsResource_st> graphics_resources;
  Registry<CUmod_st> modules;
  Registry<CUlib_st> libraries;
  Registry<CUuserObject_st> user_objects;
  std::vector<std::function<void()>> farewells;  // the program's callbacks, to be run once the lock is free
  Registry<CUgraph_st> graphs;
  Registry<CUgraphExec_st> graph_execs;
};

Machine& machine();

}  // namespace sim

struct CUctx_st {
  int device = 0;
  unsigned flags = 0;
  unsigned api_version = 0;
  bool live = true;
  CUcontext primary = nullptr;  // of a green context: where what is made in it belongs
  std::unique_ptr<CUstream_st> default_stream;  // of the null handle
  std::map<std::thread::id, std::unique_ptr<CUstream_st>> thread_streams;  // of CU_STREAM_PER_THREAD
};

namespace sim {

// This thread's stack of contexts, without a destructor: CUDA is called from other thread-local destructors.
struct ContextStack {
  static constexpr int kMaxDepth = 64;
  CUcontext contexts[kMaxDepth];
  int depth;

  CUcontext top() const { return depth == 0 ? nullptr : contexts[depth - 1]; }
};
extern thread_local ContextStack context_stack;

// Tells the simulated NVML what this process uses by now. Does nothing unless it was asked for; see settings.h.
void publish_usage();

inline CUresult driver_usable() {
  Machine& m = machine();
  bool usable = m.initialised.load(std::memory_order_acquire) && !m.forked.load(std::memory_order_relaxed);  // see cuInit
  return usable ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

// What every driver function does first; `name` is its exported name. Runs `body` under the lock.
template <class Body>
CUresult driver_call(const char* name, Body&& body) {
  if (CUresult failure = requested_failure(name)) return failure;
  if (CUresult unusable = driver_usable()) return unusable;
  std::unique_lock guard(machine().lock);
  const CUresult result = body();
  if (settings().usage_directory != nullptr) publish_usage();
  const std::vector<std::function<void()>> farewells = std::exchange(machine().farewells, {});
  guard.unlock();
  for (const auto& farewell : farewells) farewell();
  return result;
}

// The one that calls work in: the primary one for a green context.
inline CUresult current_context(CUcontext& context) {
  context = context_stack.top();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (context->live && context->primary != nullptr) context = context->primary;
  return context->live ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

// The same for functions that work on the calling thread's current context.
template <class Body>
CUresult context_call(const char* name, Body&& body) {
  return driver_call(name, [&] {
    CUcontext context;
    if (CUresult error = current_context(context)) return error;
    return static_cast<CUresult>(body(*context));
  });
}

inline Device& device_of(const CUctx_st& context) { return machine().devices[context.device]; }
inline bool valid_device(CUdevice device) {
  return device >= 0 && static_cast<size_t>(device) < machine().devices.size();
}

}  // namespace sim

// What the hooks may say: the only door from the wrappers to the recording.
//
// Every function may be called from any thread at any time, keeps errno, never fails and never calls back into the program.
// The name and stack of a driver event are those of the thread's outermost Call. The first event creates the capture.
#pragma once

#include <cstdint>

#include "interpose/capture_format.h"
#include "interpose/native_stack.h"

namespace vramtrack {

// Finds what needs the loader's lock: the unwinder, the Python interpreter. To be called wherever the program can hold no
// allocator lock: at the first look-up of a cu* name, at cuInit, in a wrapper of the runtime API, at memoryProfilingEnabled.
// Cheap when there is nothing new to find.
void prepare_recording();

// A library may have been unloaded.
void library_closed();

// False when this process is not to be recorded at all (set-uid, --no-children, recording failed): hooks may then skip work.
bool recording_wanted();

// --- the driver's own allocations ---------------------------------------------------------------------------------------

struct DriverBlock {
  format::Kind kind;
  int device;         // ordinal; ignored for pinned and registered host memory
  uint64_t address;   // or the array handle
  uint64_t size;      // bytes; what it really takes where the driver tells it
  uint64_t owner;     // context, or pool for stream-ordered memory; 0 = unknown
  uint64_t driver_ns = 0;  // the real call took; 0 = not timed
};

// After the real call succeeded.
void driver_allocated(const DriverBlock&);

// A stream, event, graph, ... was made: it takes device memory without an allocation call.
struct DriverHandle {
  format::Kind kind;
  int device;       // ordinal; -1 = none is current
  uint64_t handle;
  uint64_t owner;   // context; 0 = unknown
};
void driver_handle_created(const DriverHandle&);
bool handle_is_known(uint64_t handle, format::Kind);  // as one that lives

// A graph has a node more, added or captured, that allocates (size > 0) or frees. See graph_memory.h.
struct GraphNodeReport {
  uint64_t graph;
  uint64_t address, size;
  int device;
};
void graph_node_added(const GraphNodeReport&);
void graph_copied(uint64_t copy, uint64_t graph);              // instantiated, cloned
void graph_capture_failed(uint64_t graph);
bool graphs_have_memory();                                     // false: no graph has a node that allocates or frees
int graph_launched(uint64_t instance);                         // the device on which its nodes allocate; -1 = none does

// What counted references keep: physical memory, what another process shares, user objects. See counted_memory.h.
struct CountedMemoryReport {
  format::Kind kind;   // is_counted()
  int device;          // ordinal; -1 = host memory
  uint64_t handle;     // of kIpc: the address
  uint64_t size;       // bytes; of handles, 1
  uint64_t owner;      // context; 0 = it outlives contexts
  bool is_foreign;     // another process's memory
};
void counted_memory_made(const CountedMemoryReport&);  // or opened once more
void physical_memory_retained(uint64_t address, uint64_t handle);
void physical_memory_mapped(uint64_t address, uint64_t size, uint64_t handle);
// Memory bound to a multicast object or to a part of a sparse array is mapped too, at a place that is no address.
struct BoundPlace {
  uint64_t object;    // multicast handle, array
  uint64_t part;      // which of its parts; those of one part lie side by side
  uint64_t offset;    // bytes
};
void physical_memory_bound(const BoundPlace&, uint64_t size, uint64_t handle);
void physical_memory_at_bound(const BoundPlace&, uint64_t size, uint64_t address);
void physical_memory_unbound(const BoundPlace&, uint64_t size);
void bound_object_gone(uint64_t object);  // and all that is bound to it is bound no more
void user_object_retained(uint64_t handle, uint32_t count);
void user_object_released(uint64_t handle, uint32_t count);

// A pool of stream-ordered memory. See pools.h.
struct PoolReport {
  uint64_t key;     // handle, or graph_pool_key()
  int device;       // ordinal; -1 = host memory, or not known
  bool is_foreign;  // another process's
};
void pool_made(const PoolReport&);  // again: nothing
void pool_gone(uint64_t key);
// So many bytes more of it are in use, or less.
enum class PoolWants {
  kNothing,
  kDescription,  // it is not known: pool_made() first
  kMeasure,      // answered to one thread now and then, which tells what the driver says with pool_measured()
};
PoolWants pool_used(uint64_t key, int64_t change);
int device_of_pool(uint64_t key, int otherwise);
void pool_measured(uint64_t key, uint64_t reserved, uint64_t used);  // bytes
void pool_threshold_set(uint64_t key, uint64_t bytes);

// The memory that graphs allocate from has no handle.
inline uint64_t graph_pool_key(int device) { return 1ull << 63 | static_cast<uint32_t>(device); }

struct RefusedAllocation {
  format::Kind kind;
  int device;
  uint64_t size;
  int result;           // CUresult
  bool out_of_memory;
};
// After the real call failed. Makes no CUDA call.
void driver_refused(const RefusedAllocation&);

// What a free function accepts.
enum class FreeFamily : uint32_t { kDeviceMemory, kPinned, kRegistered, kArray, kMipmappedArray };

// A free on its way to the driver. The block leaves the table before the real call (another thread may be given its address
// at once) and comes back if the call fails:
//     PendingFree pending(address, FreeFamily::kDeviceMemory);
//     return pending.finish(real(address));
class PendingFree {
 public:
  PendingFree(uint64_t address, FreeFamily family);
  PendingFree(uint64_t handle, format::Kind kind);  // a handle that is about to be destroyed
  // `result` is a CUresult. Failure restores the block and notes an invalid free, unless the driver is shutting down or the
  // failure says nothing about the pointer (see kDriverGone, sticky errors).
  void finish(int result);

  uint64_t pool() const { return pool_; }  // the block lies in it; 0 = in none
  uint64_t size() const { return size_; }  // of what lies in a pool

 private:
  uint64_t address_;
  uint64_t pool_ = 0, size_ = 0;
  format::Layer layer_;
  FreeFamily family_ = FreeFamily::kDeviceMemory;  // of kDriver
  format::Kind kind_ = format::Kind::kNone;
  uint32_t block_ = 0;   // taken from the table; 0 = address not known (or of another family: then it stays)
  uint64_t serial_ = 0;
  uint64_t began_ns_ = 0;
};

// A graph or an instance on its way to being destroyed; as PendingFree.
class PendingGraph {
 public:
  explicit PendingGraph(uint64_t graph_or_instance);
  void finish(int result);

 private:
  uint64_t handle_;
  uint32_t nodes_ = 0;  // taken; 0 = it has none
};

// A handle, or an opened address, on its way to being released; mappings on their way to being undone. As PendingFree.
class PendingRelease {
 public:
  PendingRelease(format::Kind kind, uint64_t handle);
  void finish(int result);

 private:
  format::Kind kind_;
  uint64_t handle_;
  uint32_t piece_ = 0;
};

class PendingUnmap {
 public:
  PendingUnmap(uint64_t address, uint64_t size);
  void finish(int result);

 private:
  uint32_t first_ = 0;
};

// A context was destroyed (context != 0) or a device's primary context reset (context == 0): linear memory, arrays and pinned
// memory go, stream-ordered memory does not.
void driver_context_gone(int device, uint64_t context);

// What a device is, told once, at its first allocation.
bool device_described(int device);
struct DeviceDescription {
  const char* name;
  uint64_t total_bytes;
  const char* uuid;  // 16 bytes
};
void describe_device(int device, const DeviceDescription&);

// A memory function was looked up that we know of but do not hook.
void memory_function_unhooked(const char* name);

// --- PyTorch -----------------------------------------------------------------------------------------------------------

struct TorchReport {
  uint64_t address;
  int64_t size;               // negative: freed
  uint64_t total_allocated, total_reserved;  // 0 where the allocator does not tell
  int device_type;            // c10::DeviceType: 0 CPU, 1 CUDA
  int device_index;
};
void torch_block(const TorchReport&, CallSite);
void torch_out_of_memory(const TorchReport&, CallSite);  // size: bytes asked for
void torch_unsupported();  // its reports cannot be read

// How PyTorch's current stream of a device on this thread is asked for; see torch_streams.h.
using CurrentTorchStream = int64_t(int device);
void torch_streams_known(CurrentTorchStream*);

// A step begins. The strongest source wins; weaker ones are ignored from then on.
void step_begins(format::StepSource);

// Backward runs on this thread, and on the engine's threads on its behalf, until the scope ends or its frame is left by an
// exception. Saves this thread's Python stack and lends it to the engine's threads.
struct BackwardScope {
  explicit BackwardScope(CallSite);
  ~BackwardScope();
  BackwardScope(const BackwardScope&) = delete;
  BackwardScope& operator=(const BackwardScope&) = delete;

 private:
  uintptr_t saved_frame_;
};

}  // namespace vramtrack

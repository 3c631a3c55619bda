// The recording as the hooks' tests want it: every event becomes one line of text, kept in order.
//
// Linked into a library of the hooks alone, in place of events.cpp and what is behind it. The program under test reads the lines with
// vramtrack_fake_events() and forgets them with vramtrack_fake_reset().
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "interpose/call.h"
#include "interpose/events.h"
#include "interpose/settings.h"

namespace vramtrack {

thread_local OuterCall Call::current;
thread_local bool OwnWork::busy;

namespace {

char lines[1 << 16];
size_t length;
bool device_told;
thread_local const char* freeing;
CurrentTorchStream* current_stream;
std::atomic<long> torch_blocks, torch_bytes, torch_reports;  // live, live, ever

__attribute__((format(printf, 1, 2))) void say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written = vsnprintf(lines + length, sizeof lines - length, format, arguments);
  va_end(arguments);
  if (written > 0 && length + written < sizeof lines) length += written;
}

const char* name(format::Kind kind) {
  static const char* const kNames[] = {
      "none", "device", "stream", "managed", "array", "mipmapped", "pinned", "registered", "cpu", "graph memory", "shared", "physical", "ipc",
      "multicast", "user object", "stream", "event", "graph", "exec", "module", "library", "texture", "surface", "pool", "context",
      "green context", "external memory", "graphics resource", "address range", "cublas", "cublaslt", "cudnn", "cufft", "curand", "cusolver", "cusparse", "nccl"};
  return kNames[static_cast<int>(kind)];
}

const char* name(FreeFamily family) {
  static const char* const kNames[] = {"device", "pinned", "registered", "array", "mipmapped"};
  return kNames[static_cast<int>(family)];
}

const char* api() { return Call::outermost().api ? Call::outermost().api : "-"; }

}  // namespace

constinit std::atomic<bool> settings_read{false};
Settings settings_values;
const Settings& read_settings() {
  settings_values.cpu = getenv("VRAMTRACK_CPU") != nullptr;
  return settings_values;
}

void prepare_recording() {}
void library_closed() {}
bool recording_wanted() { return true; }

void driver_allocated(const DriverBlock& block) {
  say("%s: %s device %d address %lx size %lu owner %lx\n", api(), name(block.kind), block.device, block.address, block.size,
      block.owner);
}
void driver_refused(const RefusedAllocation& refused) {
  say("%s: refused %s device %d size %lu result %d%s\n", api(), name(refused.kind), refused.device, refused.size, refused.result,
      refused.out_of_memory ? " out of memory" : "");
}
void driver_handle_created(const DriverHandle& handle) {
  say("%s: %s device %d handle %lx owner %lx\n", api(), name(handle.kind), handle.device, handle.handle, handle.owner);
}
PendingFree::PendingFree(uint64_t address, FreeFamily family) : address_(address), layer_(format::Layer::kDriver) {
  freeing = name(family);
  say("%s: frees %s %lx\n", api(), freeing, address);
}
PendingFree::PendingFree(uint64_t handle, format::Kind kind) : address_(handle), layer_(format::Layer::kHandles) {
  freeing = name(kind);
  say("%s: destroys %s %lx\n", api(), freeing, handle);
}
void PendingFree::finish(int result) { say("%s: freed %s %lx result %d\n", api(), freeing, address_, result); }
void graph_node_added(const GraphNodeReport& node) { say("%s: node %lx of %lu bytes of graph %lx\n", api(), node.address, node.size, node.graph); }
void graph_copied(uint64_t, uint64_t) {}
void graph_capture_failed(uint64_t) {}
PendingGraph::PendingGraph(uint64_t handle) : handle_(handle) {}
void PendingGraph::finish(int) { handle_ = nodes_; }
bool graphs_have_memory() { return false; }
int graph_launched(uint64_t) { return -1; }
bool handle_is_known(uint64_t, format::Kind) { return false; }
void physical_memory_bound(const BoundPlace& place, uint64_t size, uint64_t handle) { say("bound %lx at %lx+%lx size %lu\n", handle, place.object, place.offset, size); }
void physical_memory_at_bound(const BoundPlace& place, uint64_t size, uint64_t address) { say("bound what is at %lx at %lx+%lx size %lu\n", address, place.object, place.offset, size); }
void physical_memory_unbound(const BoundPlace& place, uint64_t size) { say("unbound %lx+%lx size %lu\n", place.object, place.offset, size); }
void bound_object_gone(uint64_t) {}
void user_object_retained(uint64_t handle, uint32_t count) { say("retained %lx %u times\n", handle, count); }
void user_object_released(uint64_t handle, uint32_t count) { say("released %lx %u times\n", handle, count); }
void pool_made(const PoolReport& pool) { say("pool %lx device %d%s\n", pool.key, pool.device, pool.is_foreign ? " foreign" : ""); }
void pool_gone(uint64_t key) { say("pool %lx gone\n", key); }
PoolWants pool_used(uint64_t, int64_t) { return PoolWants::kNothing; }
int device_of_pool(uint64_t, int otherwise) { return otherwise; }
void pool_measured(uint64_t key, uint64_t reserved, uint64_t used) { say("pool %lx reserved %lu used %lu\n", key, reserved, used); }
void pool_threshold_set(uint64_t key, uint64_t bytes) { say("pool %lx threshold %lu\n", key, bytes); }
void counted_memory_made(const CountedMemoryReport& memory) {
  say("%s: %s device %d handle %lx size %lu%s\n", api(), name(memory.kind), memory.device, memory.handle, memory.size,
      memory.is_foreign ? " foreign" : "");
}
void physical_memory_retained(uint64_t address, uint64_t handle) { say("retained %lx by %lx\n", handle, address); }
void physical_memory_mapped(uint64_t address, uint64_t size, uint64_t handle) { say("mapped %lx at %lx size %lu\n", handle, address, size); }
PendingRelease::PendingRelease(format::Kind kind, uint64_t handle) : kind_(kind), handle_(handle) { say("releases %s %lx\n", name(kind), handle); }
void PendingRelease::finish(int result) { say("released %s %lx result %d\n", name(kind_), handle_, result), piece_ = 0; }
PendingUnmap::PendingUnmap(uint64_t address, uint64_t size) { say("unmaps %lx size %lu\n", address, size); }
void PendingUnmap::finish(int result) { say("unmapped result %d\n", result), first_ = 0; }
void driver_context_gone(int device, uint64_t context) { say("%s: gone device %d context %lx\n", api(), device, context); }
bool device_described(int) { return device_told; }
void describe_device(int device, const DeviceDescription& is) {
  device_told = true;
  say("device %d is %s, %lu bytes\n", device, is.name, is.total_bytes);
}
void memory_function_unhooked(const char* function) { say("unhooked %s\n", function); }

void torch_block(const TorchReport& report, CallSite) {
  torch_blocks += report.size > 0 ? 1 : -1;
  torch_bytes += report.size;
  ++torch_reports;
  say("torch: block %lx size %ld allocated %lu reserved %lu device %d:%d\n", report.address, report.size,
      report.total_allocated, report.total_reserved, report.device_type, report.device_index);
}
void torch_out_of_memory(const TorchReport& report, CallSite) {
  say("torch: out of memory size %ld device %d:%d\n", report.size, report.device_type, report.device_index);
}
void torch_streams_known(CurrentTorchStream* current) { current_stream = current; }
void torch_unsupported() { say("torch: unsupported\n"); }
void step_begins(format::StepSource) { say("torch: step\n"); }
BackwardScope::BackwardScope(CallSite) : saved_frame_(0) { say("torch: backward begins\n"); }
BackwardScope::~BackwardScope() { say("torch: backward ends\n"); }

}  // namespace vramtrack

extern "C" __attribute__((visibility("default"))) const char* vramtrack_fake_events() { return vramtrack::lines; }
extern "C" __attribute__((visibility("default"))) long vramtrack_fake_current_stream(int device) {
  return vramtrack::current_stream ? static_cast<long>(vramtrack::current_stream(device)) : -1;
}
extern "C" __attribute__((visibility("default"))) void vramtrack_fake_torch(long* blocks, long* bytes, long* reports) {
  *blocks = vramtrack::torch_blocks;
  *bytes = vramtrack::torch_bytes;
  *reports = vramtrack::torch_reports;
}
extern "C" __attribute__((visibility("default"))) void vramtrack_fake_reset() {
  vramtrack::length = 0;
  vramtrack::lines[0] = 0;
}

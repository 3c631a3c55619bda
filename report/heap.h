// The heap: what one process held, folded by site, as everything after the reader sees it.
//
// A plain value, built by capture_reader from a file or by hand in a test. Diagnosis and rendering are pure functions of it.
// Sizes are bytes; times are seconds since the process started; steps count from 1, 0 = before the first step or unknown.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vramtrack {

enum class Layer : uint8_t { kDriver, kPytorch };
enum class Memory : uint8_t { kDevice, kPinnedHost, kCpu, kImported };  // kImported: another process's, mapped here
enum class Kind : uint8_t {
  kDevice, kStreamOrdered, kManaged, kArray, kMipmappedArray, kPinned, kRegistered, kCpu, kGraphMemory,
  kShared, kPhysical, kIpc,
  // Handles, which take memory without an allocation of their own.
  kMulticast, kUserObject, kStream, kEvent, kGraph, kGraphExec, kModule, kLibrary, kTexture, kSurface, kMemoryPool, kContext,
  kGreenContext, kExternalMemory, kGraphicsResource, kAddressRange, kCublas, kCublasLt, kCudnn, kCufft, kCurand, kCusolver, kCusparse, kNccl,
};
inline constexpr Kind kLastKind = Kind::kNccl;
inline bool is_handle(Kind kind) { return kind >= Kind::kMulticast; }
enum class FrameKind : uint8_t { kPython, kNative, kMarker };
enum class StepSource : uint8_t { kNone, kOptimizer, kNvtx, kApi };

// The words of the JSON contract.
std::string_view to_string(Layer);
std::string_view to_string(Memory);
std::string_view to_string(Kind);
std::string_view to_string(FrameKind);
std::string_view to_string(StepSource);
std::string_view noun_of(Kind);  // of a handle: "stream", "instantiated graph", "cuBLAS handle"

struct Module {
  std::string path;
  std::string build_id;  // lower-case hex, "" = none
  uint64_t load_bias = 0, begin = 0, end = 0;
  bool unloaded = false;
};

// One line of code. `line` 0 = not known.
struct Location {
  std::string function, file;
  int line = 0;
};

struct Frame {
  FrameKind kind = FrameKind::kPython;
  uint64_t address = 0;  // native: return address in the process
  int module = -1;       // native: index into Heap::modules, -1 = none
  // Innermost first. Python and marker frames have one. A native frame has none until symbols.h resolved it, then one for
  // itself and one for each function inlined into it.
  std::vector<Location> locations;
};

// Indices into Heap::frames, innermost first.
using Stack = std::vector<uint32_t>;

struct Block {
  uint64_t address = 0, size = 0;
  uint64_t serial = 0;  // ordinal of the allocation in the process
  uint64_t owner = 0;   // context or pool handle
  uint32_t thread = 0;
  uint32_t step = 0;
  double time = 0;
  uint16_t references = 0, mappings = 0;  // of kPhysical and kIpc: handles (or openings) and mappings that keep it
  int stream = -1;      // of PyTorch's blocks and of segments: index into Heap::streams, -1 = not known
  bool let_go = false;  // freed after the program's last allocation, before it tore itself down: a local of main(), or cleared
};

// Least live bytes of a site over equal windows of its space's history, the last point being where the work ended.
struct Curve {
  std::vector<double> floor;   // bytes; empty: fewer than two allocations
};

struct Site {
  uint32_t id = 0;
  int space = 0;  // index into Heap::spaces
  Kind kind = Kind::kDevice;
  Stack stack;    // empty: none could be taken
  std::string api;  // the function called, e.g. "cudaMalloc"; "" for a framework's blocks
  bool overflow = false;  // stands for all stacks beyond the bound

  uint64_t allocations = 0, frees = 0;
  uint64_t allocated_bytes = 0;
  uint64_t live_bytes = 0, live_blocks = 0;  // at the end of the process (or now)
  uint64_t end_bytes = 0, end_blocks = 0;    // when the program's work ended; equal to live unless it tore itself down
  uint64_t peak_bytes = 0, peak_blocks = 0;  // at the peak of its space
  uint64_t max_live_bytes = 0, max_live_blocks = 0;  // its own highest

  double first_time = 0, last_time = 0;
  uint32_t first_step = 0, last_step = 0;
  uint64_t first_serial = 0, last_serial = 0;
  uint64_t size_min = 0, size_max = 0;
  uint32_t new_max_sizes = 0;      // allocations larger than every one before, the first included
  uint64_t level_blocks = 0;       // live blocks at the last time their highest number rose by an eighth,
  uint64_t level_allocations = 0;  // and the allocations made by then
  double driver_time = 0;          // spent in the driver's allocation and free calls; stream-ordered ones are not timed
  uint64_t size_changes = 0;       // allocations whose size differs from the one before
  uint64_t allocs_over_live = 0;   // allocations made while an earlier block of the site was live
  std::array<uint32_t, 8> lifetime_steps{};  // freed blocks that lived 0, 1, 2-3, 4-7, 8-15, ... steps
  Curve curve;
  std::vector<Block> survivors;    // live when the work ended, oldest first
};

struct SeriesPoint {
  double time = 0;
  uint32_t step = 0;
  uint64_t live_min = 0, live_max = 0, reserved_max = 0;
};

// What the driver took for the process on a device, as nvidia-smi shows it, and how much of it no recorded block explained, over time.
struct UsagePoint {
  double time = 0;
  uint64_t rest = 0;
};
struct Usage {
  uint64_t used = 0, tracked = 0, peak_used = 0;  // the first two: when last measured
  std::vector<UsagePoint> rest;                   // empty: not measured
};

struct Space {
  Layer layer = Layer::kDriver;
  Memory memory = Memory::kDevice;
  int device = -1;          // ordinal, -1 = host
  std::string name;         // of the device
  uint64_t total_bytes = 0;
  uint64_t live_bytes = 0, live_blocks = 0;
  uint64_t peak_bytes = 0;
  double peak_time = 0;
  uint32_t peak_step = 0;
  uint64_t allocations = 0, frees = 0, failed_allocations = 0;
  uint64_t reserved_bytes = 0;  // what the layer holds, used or not; 0 = not told
  std::vector<SeriesPoint> series;
  Usage usage;                  // of the driver's view of a device
};

// "cuda:0", "pinned", "cpu".
std::string device_name(const Space&);

enum class IncidentKind : uint8_t { kOutOfMemory, kFailedCall, kInvalidFree, kReset, kUnhooked };
enum class FreeFault : uint8_t { kNone, kUnknownPointer, kDoubleFree, kWrongFamily, kGoneWithContext };

struct TopSite {
  uint32_t site = 0;  // Site::id
  uint64_t bytes = 0;
};

// A rare event; equal ones are folded, `count` says how many.
struct Incident {
  IncidentKind kind = IncidentKind::kOutOfMemory;
  FreeFault fault = FreeFault::kNone;
  Stack stack;
  std::string api, name;
  int space = -1;
  int detail = 0;              // CUresult
  uint32_t allocated_by = 0;   // invalid free: Site::id that made the block, 0 = unknown
  uint64_t count = 0;
  double first_time = 0, last_time = 0;
  uint32_t first_step = 0, last_step = 0;
  uint64_t address = 0, size = 0;
  uint64_t live_bytes = 0, reserved_bytes = 0, total_bytes = 0;
  uint64_t serial = 0;
  std::vector<TopSite> top;    // largest sites of the space at that moment
};

struct ResidentPoint {
  double time = 0;
  uint64_t bytes = 0;
};

struct Process {
  int pid = 0, ppid = 0, rank = -1;
  std::vector<std::string> argv, environment;
  std::string exe, host, python_version;  // "" = none or unknown
  bool has_torch = false;       // PyTorch's caching allocator was seen
  std::string start_time;       // UTC, 2026-01-31T12:00:00Z
  double recorded_from = 0;     // when recording began; before that, nothing was allocated
  double duration = 0;          // to its end, or as far as it is known to have lived
  bool end_time_known = false;
  std::string ended;            // "exit:0", "signal:9", "running", "unknown"
  uint32_t steps = 0;
  StepSource step_source = StepSource::kNone;
  uint32_t backward_passes = 0;
  uint64_t last_backward_serial = 0;
  uint64_t allocations = 0;     // over all spaces; the serial of the last one
  bool work_ended = false;      // it tore itself down; the next three say where its work ended
  double work_ended_time = 0;
  uint32_t work_ended_step = 0;
  uint64_t work_ended_serial = 0;
  uint64_t lost_events = 0;
  uint64_t unknown_frees = 0;
  std::vector<ResidentPoint> resident;  // memory of the host, as the kernel counts it; empty: not measured
  uint64_t native_unwinds = 0;  // native stacks that had to be unwound; the others were verified
  std::string stop_reason;      // why recording ended before the program, "" = it did not
  std::vector<std::string> notes;  // what could not be seen, one sentence each
};
double end_of_work(const Process&);  // seconds: where its work ended, or it did

// A pool of stream-ordered memory, or the memory that graphs allocate from: what it holds, in use or not, as the driver told now and then.
struct PoolPoint {
  double time = 0;
  uint64_t idle_min = 0, used_max = 0;  // since the point before; idle = reserved, but not in use
};
struct Pool {
  uint64_t handle = 0;  // 0 = the memory that graphs allocate from
  int device = -1;      // ordinal, -1 = host
  uint64_t reserved = 0, used = 0, peak_reserved = 0;  // the first two: when last asked
  uint64_t threshold = 0;      // bytes that are kept when nothing uses them
  Stack threshold_stack;       // where that was set; empty: it was not
  std::string threshold_api;
  std::vector<PoolPoint> points;
  bool destroyed = false;
};

// A stream that PyTorch allocated on.
struct Stream {
  int64_t id = 0;  // PyTorch's number; 0 = the device's default stream
  int device = -1;
  uint64_t last_serial = 0;  // of the last allocation on it
  double last_time = 0;
  uint32_t last_step = 0;
};

// Live handles, told as memory is: a handle is a block of one byte, so that "bytes" are counts. They have a room of their own, or
// they would be added to memory.
struct Handles {
  std::vector<Space> spaces;  // one per device
  std::vector<Site> sites;    // Site::space is an index into these
};

struct Heap {
  Process process;
  std::vector<Module> modules;
  std::vector<Frame> frames;
  std::vector<Space> spaces;
  std::vector<Site> sites;
  Handles handles;
  std::vector<Pool> pools;         // that were asked
  std::vector<Stream> streams;
  std::vector<Incident> incidents;
  std::vector<std::string> damage;  // what of the file could not be read, one line each; empty: all of it was
};

const Site* find_site(const Heap&, uint32_t id);  // of memory or of handles
int driver_space(const Heap&, int device);        // index of the driver's view of a device; -1 = there is none

// All locations of a stack, innermost first, inlined functions included.
std::vector<Location> locations(const Heap&, const Stack&);

}  // namespace vramtrack

// The capture file: what lies where, and what a reader may rely on.
//
// A capture is the present state of one process's GPU memory, not a log of how it came about. The traced process keeps it
// in a shared file mapping; the kernel owns the pages, so the file is whole whenever the process dies. Its size is
// O(live blocks + distinct stacks), however long the program runs.
//
//   offset 0      Header              identity, why recording ended, the directory of tables
//   anywhere      chunks of tables    each chunk is one extent of the file, found through the directory
//
// Invariants
//   - All numbers are little-endian and of fixed width. There are no pointers: records name each other by index.
//   - Index 0 of every table is reserved and means "none". A zeroed record is not written yet.
//   - A table never moves. It grows by chunks: chunk k holds `first_chunk_records << k` records, and is fully allocated and
//     zeroed before its offset is stored (release) in the directory.
//   - `Table::count` is stored (release) after the records below it are complete, and loaded (acquire) first by a reader. Three
//     tables publish room that is filled after: a string is named by others only when it is complete, a space is zeros till then,
//     a block carries its own mark, see below.
//   - Blocks are reused in place. `Block::serial` is cleared before what says what was allocated changes, and stored (release) after
//     that is complete; a reader that sees the same non-zero serial before and after its copy has a whole record. What comes later
//     in a block's life (its free, its references, a size that was not known) is one word each.
//   - What was live when the program's work ended cannot be known when it happens: a program's last act before it ends is to
//     free, and every free might have been the last. So a free leaves its block's record as it was, marked, and its site's bytes
//     saved, both under a number that says "since the same allocation" (Header::end_number). They are survivors of the work if
//     that number turns out to be the last one.
//   - Counters of sites and spaces are written under a lock of the writer's. A reader of a live file may see one event half
//     applied (a site's bytes without the space's); it never sees a torn number.
//
// Rejected: an event log (grows without bound, must be replayed, loses its tail); a hash table of blocks in the file
// (rehashing moves records under a reader's eyes; the index lives in the writer's own memory instead).
//
// Written by capture_file.* and recorder.*, read by report/capture_reader.*. This header has no behaviour.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vramtrack::format {

inline constexpr char kMagic[8] = {'V', 'R', 'A', 'M', 'T', 'R', 'K', '\n'};
inline constexpr uint32_t kVersion = 4;  // raised whenever a field changes place or meaning; older ones were never released

inline constexpr uint32_t kCurvePoints = 64;
inline constexpr uint32_t kSeriesPoints = 512;
inline constexpr uint32_t kUsagePoints = 64;
inline constexpr uint32_t kPoolPoints = 64;
inline constexpr uint32_t kLifetimeBuckets = 8;
inline constexpr uint32_t kTopSites = 16;
inline constexpr uint32_t kMaxChunks = 32;

// kHandles: what takes device memory without an allocation call. Each is a block of size 1: the "bytes" of its spaces are counts.
enum class Layer : uint8_t { kNone, kDriver, kPytorch, kHandles };

// Which memory a space's bytes lie in.
enum class Memory : uint8_t {
  kNone, kDevice, kPinnedHost, kCpu,
  kImported,  // another process's, on a device
};

// What kind of allocation a block is. Several kinds share one memory.
enum class Kind : uint8_t {
  kNone,
  kDevice,         // cuMemAlloc, cuMemAllocPitch; a framework's block on a GPU
  kStreamOrdered,  // cuMemAllocAsync and from a pool
  kManaged,        // cuMemAllocManaged: address space, not necessarily resident
  kArray,          // cuArrayCreate; the address is the CUarray handle
  kMipmappedArray,
  kPinned,         // cuMemHostAlloc, cuMemAllocHost
  kRegistered,     // cuMemHostRegister: the program's own memory, page-locked
  kCpu,            // a framework's block in pageable host memory
  kGraphMemory,    // an allocation node of a graph that was launched
  kShared,         // an address in another process's pool or another API's memory: not this process's to count
  // Known by the number of a piece of counted memory, see counted_memory.h.
  kPhysical,       // cuMemCreate, cuMemImportFromShareableHandle: physical memory, mapped or not
  kIpc,            // cuIpcOpenMemHandle
  // Handles, counted as well; these two take no device memory of their own.
  kMulticast,
  kUserObject,
  // Handles. The address is the handle.
  kStream,
  kEvent,
  kGraph,
  kGraphExec,
  kModule,
  kLibrary,
  kTexture,
  kSurface,
  kMemoryPool,
  kContext,
  kGreenContext,
  kExternalMemory,
  kGraphicsResource,
  kAddressRange,   // cuMemAddressReserve: no memory, but room for some
  // Of the libraries that come with CUDA.
  kCublas,
  kCublasLt,
  kCudnn,
  kCufft,
  kCurand,
  kCusolver,
  kCusparse,
  kNccl,
};
inline bool is_handle(Kind kind) { return kind >= Kind::kMulticast; }
inline bool is_counted(Kind kind) { return kind >= Kind::kPhysical && kind <= Kind::kUserObject; }

enum class FrameKind : uint32_t { kNone, kPython, kNative, kMarker };

// Where step numbers come from; the strongest source seen wins.
enum class StepSource : uint32_t { kNone, kOptimizer, kNvtx, kApi };

// What a space's windows are cut by: its allocations, until the program's iterations are known. The strongest source seen counts.
enum class Clock : uint32_t { kAllocations, kBackward, kStep };

// Why recording stopped before the program did. Zero while all is well.
enum class StopReason : uint32_t { kNone, kDiskFull, kFileSizeLimit, kMapFailed, kTableFull };

enum class EndKind : uint32_t { kUnknown, kExit, kSignal };

// How this process's Python frames are read.
enum class PythonState : uint32_t { kAbsent, kReading, kUnsupportedVersion, kSelfCheckFailed };
enum class UnwinderState : uint32_t { kNone, kLibunwind, kLibgcc, kOff };
enum class TorchState : uint32_t { kAbsent, kReporting, kUnsupportedVersion };

// A growing array of records.
struct Table {
  std::atomic<uint64_t> count;            // records published, the reserved record 0 included
  uint32_t record_size;                   // bytes; equals sizeof of this version's record
  uint32_t first_chunk_records;           // a power of two
  std::atomic<uint64_t> chunks[kMaxChunks];  // file offset of chunk k; 0 = not there
};
static_assert(sizeof(Table) == 16 + 8 * kMaxChunks);

enum TableId : uint32_t {
  kStrings,  // bytes; a string is StringHeader, its bytes and a NUL, inside one chunk; its id is the byte index
  kModules,
  kFrames,
  kStacks,
  kSpaces,
  kSites,
  kCurves,
  kBlocks,
  kIncidents,
  kPools,
  kStreams,
  kTableCount,
};

struct StringHeader {
  uint32_t length;  // without the NUL
};

// A loaded object file. Unloading sets `unloaded`, and loading the same file again clears it, wherever it lies then: its frames keep
// the addresses of its first place, so that a line is one frame however often its plugin is loaded.
struct Module {
  uint64_t load_bias;     // address in the process = load_bias + address in the object
  uint64_t begin, end;    // range of addresses in the process
  uint32_t path;          // string; the real path, empty for the vDSO
  uint32_t build_id_size;
  uint8_t build_id[24];
  uint32_t unloaded;
  uint32_t reserved;
};
static_assert(sizeof(Module) == 64);

// kPython:  a line of a function.
// kNative:  a return address (the call is at address - 1).
// kMarker:  a name that has no code of its own, e.g. the CUDA function called or a backward node; `function` names it.
struct Frame {
  uint64_t address;   // native: in the process; resolve through `module`
  FrameKind kind;
  uint32_t module;    // native: module index, 0 = none (JIT code)
  uint32_t function;  // python, marker: string
  uint32_t file;      // python: string
  uint32_t line;      // python: 1-based, 0 = unknown
  uint32_t first_line;  // python: the line of the `def`
};
static_assert(sizeof(Frame) == 32);

// One node of the prefix tree of stacks: `frame`, called by the stack `parent`. A stack is the id of its innermost node.
struct StackNode {
  uint32_t parent;  // 0 = outermost
  uint32_t frame;
};
static_assert(sizeof(StackNode) == 8);

// One point of a space's history: the extremes over a window of events.
struct SeriesPoint {
  uint64_t live_min, live_max;  // bytes
  uint64_t reserved_max;        // bytes the layer below holds for this space, where the layer tells it
  uint32_t time_ms;             // of the window's last event
  uint32_t step;
};
static_assert(sizeof(SeriesPoint) == 32);

// What the driver takes for the process on a device, as NVML tells it (and nvidia-smi shows), beside what the recorded blocks explain.
// Written by `vramtrack run` from outside, while the process works: the process never asks.
struct UsagePoint {
  uint64_t rest;      // bytes used that no block explained, the least of the samples the point covers
  uint32_t time_ms;   // of the last of them
  uint32_t reserved;
};
struct Usage {
  uint64_t used, tracked;  // at the last sample: by NVML, and of the driver's live blocks
  uint64_t peak_used;
  uint32_t samples;        // 0 = not measured
  uint32_t scale;          // a point covers 2^scale samples
  UsagePoint point[kUsagePoints];
};
static_assert(sizeof(Usage) == 32 + sizeof(UsagePoint) * kUsagePoints);

// A pool of stream-ordered memory, or (handle 0) the memory that graphs allocate from: what it holds and how much of that is in use, by
// the driver's own account. Asked for when the program allocates or frees, a few times a second.
struct PoolPoint {
  uint64_t idle_min, used_max;  // bytes, over the samples the point covers; idle = reserved but not in use
  uint32_t time_ms;             // of the last of them
  uint32_t reserved;
};
struct Pool {
  uint64_t handle;
  uint64_t reserved, used;     // bytes, at the last sample
  uint64_t peak_reserved;
  uint64_t threshold;          // bytes that are not given back to the device when nothing uses them
  int16_t device;              // ordinal; -1 = host memory
  uint16_t destroyed;          // 1: by the program
  uint32_t threshold_stack;    // who set it; 0 = nobody was seen to
  uint32_t threshold_api;      // string
  uint32_t samples;            // 0 = never asked
  uint32_t scale;              // a point covers 2^scale samples
  uint32_t reserved0;
  PoolPoint point[kPoolPoints];
};
static_assert(sizeof(Pool) == 64 + sizeof(PoolPoint) * kPoolPoints);

// A stream that PyTorch allocated on.
struct Stream {
  int64_t id;            // c10::StreamId; 0 = the device's default stream
  int16_t device;        // ordinal
  uint16_t reserved[3];
  uint64_t last_serial;  // of the last allocation on it
  uint32_t last_time_ms, last_step;
};
static_assert(sizeof(Stream) == 32);

// Resident memory of the process on the host, over time. Written by `vramtrack run` from outside, like Usage.
struct ResidentPoint {
  uint32_t least_kib;  // of the samples the point covers
  uint32_t time_ms;    // of the last of them
};
struct Resident {
  uint32_t samples;    // 0 = not measured
  uint32_t scale;      // a point covers 2^scale samples
  ResidentPoint point[kUsagePoints];
};

// One memory whose bytes add up and have a peak: a layer's view of one device, of pinned or of pageable host memory.
struct Space {
  Layer layer;
  Memory memory;
  int16_t device;            // ordinal as the process sees it; -1 = host
  uint32_t name;             // string: the device's name; 0 = not known
  uint64_t total_bytes;      // of the device; 0 = not known
  uint64_t live_bytes, live_blocks;
  uint64_t managed_bytes;    // of the live ones: they take the device's memory only as far as they were used there
  uint64_t peak_bytes;
  uint64_t peak_number;      // how often a new peak was reached; see Site::peak_number
  uint64_t allocations, frees;
  uint64_t reserved_bytes;   // what the layer says it holds (PyTorch: total_reserved); 0 = not told
  uint64_t failed_allocations;
  uint32_t peak_time_ms, peak_step;
  // The clock of the space's curves, see advance_clock().
  Clock clock;
  uint32_t iterations_seen;   // steps or backward passes, as the clock counts
  uint64_t windows;           // begun, but for the first; of kAllocations, the allocations
  uint64_t window_begin;      // allocations at its begin
  uint64_t longest_window;    // in allocations, of those that ended with an iteration
  uint8_t uuid[16];          // of the device, as cuDeviceGetUuid tells it; zero = not known
  Usage usage;
  uint32_t series_scale;     // a point covers 2^series_scale events
  uint32_t series_count;     // points in use, the unfinished last one included
  SeriesPoint series[kSeriesPoints];
};
static_assert(sizeof(Space) == 152 + sizeof(Usage) + sizeof(SeriesPoint) * kSeriesPoints);

// What one (stack, kind, space) allocated. Sites stay when their blocks go.
struct Site {
  uint32_t stack;            // 0 = none could be taken
  uint32_t api;              // string: the function called ("cudaMalloc"); 0 for a framework's blocks
  uint16_t space;
  Kind kind;
  uint8_t overflow;          // 1: stands for all stacks beyond the bound on distinct stacks
  uint32_t curve;            // growth curve; 0 = none

  uint64_t allocations, frees;
  uint64_t live_bytes, live_blocks;
  uint64_t max_live_bytes, max_live_blocks;
  uint64_t allocated_bytes;  // sum of all sizes ever

  // Composition at the peak without a scan: before a site changes, if its peak_number is older than its space's, it saves
  // its live bytes under the space's present number. At the end its bytes at the peak are the saved ones if the numbers are
  // equal, else its live ones. The same for blocks.
  uint64_t peak_number;
  uint64_t saved_peak_bytes, saved_peak_blocks;

  // What was live before the first free under `end_number`. It was live when the work ended if that is the header's; else the
  // live values are.
  uint64_t end_number;
  uint64_t end_bytes, end_blocks;

  uint32_t reserved;
  uint32_t first_time_ms, last_time_ms;        // of allocations
  uint32_t first_step, last_step;              // of allocations
  uint32_t new_max_sizes;    // allocations larger than every one before, the first included
  uint64_t size_min, size_max, size_last;
  uint64_t first_serial, last_serial;          // of allocations
  uint64_t allocs_over_live;  // allocations made while an earlier block of this site was live
  uint64_t size_changes;      // allocations whose size differs from the one before
  // Freed blocks by lifetime in steps: 0, 1, 2-3, 4-7, ... the last bucket is open. Meaningful where steps are known.
  uint32_t lifetime_steps[kLifetimeBuckets];
  // A level of live blocks: raised to their number whenever that exceeds it by an eighth, with the allocations made by then. In
  // a pool of bounded size it comes to rest while allocations go on; a leak keeps raising it.
  uint64_t level_blocks, level_allocations;
  uint64_t driver_ns;        // spent in the driver's allocation and free calls; stream-ordered ones are not timed
};
static_assert(sizeof(Site) == 256);

// Floors of a site's live bytes: point i is the least over the space's windows [i << scale, (i + 1) << scale). When points run
// out, neighbours merge (minimum) and scale rises.
struct Curve {
  uint32_t site;
  uint32_t by_iteration;  // 1: the space's clock is not kAllocations; 0: it was when the site was last touched
  uint32_t scale;
  uint32_t last_window;   // index of the point being filled; points after it repeat the site's live bytes
  float floor[kCurvePoints];
};
static_assert(sizeof(Curve) == 16 + 4 * kCurvePoints);

inline constexpr uint64_t kFreed = 1ull << 63;      // in Block::serial
inline constexpr uint64_t kAfterWork = 1ull << 63;  // in Header::end_number

// A block. One cache line.
struct Block {
  std::atomic<uint64_t> serial;  // ordinal of the allocation in this process, from 1; with kFreed: it is freed; 0 = never used
  uint64_t address;              // device or host address, or a handle for arrays
  uint64_t size;                 // bytes
  uint64_t owner;                // context or pool handle; 0 = not told
  uint32_t site;
  uint32_t thread;               // kernel thread id
  uint32_t time_ms;
  uint32_t step;
  uint64_t end_number;           // of its free, see Header; with kAfterWork: freed by the teardown
  uint32_t next_free;            // the writer's list of free records; means nothing to a reader
  union {
    uint16_t references;  // of kPhysical and kIpc: handles, or openings, that keep it
    uint16_t stream;      // of PyTorch's blocks and of segments on a device: index in kStreams, 0 = not known
  };
  uint16_t mappings;      // of kPhysical: mappings that keep it
};
static_assert(sizeof(Block) == 64);

enum class IncidentKind : uint32_t {
  kNone,
  kOutOfMemory,   // an allocation was refused for want of memory
  kFailedCall,    // an allocation was refused for another reason; `detail` is the CUresult
  kInvalidFree,   // a free was refused; see FreeFault
  kReset,         // a device reset or context destroy took live blocks with it
  kUnhooked,      // a memory function was resolved that is not hooked; `name` says which
};

enum class FreeFault : uint32_t { kNone, kUnknownPointer, kDoubleFree, kWrongFamily, kGoneWithContext };

struct IncidentTop {
  uint32_t site;
  uint32_t reserved;
  uint64_t bytes;
};

// A rare event, folded by (kind, stack, fault): `count` tells how often, the other fields speak of the last time.
struct Incident {
  IncidentKind kind;
  FreeFault fault;
  uint32_t stack;
  uint32_t api;             // string: the function called
  uint16_t space;           // 0 = not told
  uint16_t detail;          // CUresult, where there is one
  uint32_t other_site;      // invalid free: the site that allocated the block; 0 = unknown
  uint32_t name;            // kUnhooked: string
  uint32_t first_time_ms, last_time_ms;
  uint32_t first_step, last_step;
  uint32_t top_count;
  uint64_t count;
  uint64_t address;
  uint64_t size;            // bytes asked for, or lost in a reset
  uint64_t live_bytes;      // of the space at that moment
  uint64_t reserved_bytes;  // of the space at that moment
  uint64_t total_bytes;
  uint64_t serial;          // events before this one
  IncidentTop top[kTopSites];  // largest sites of the space at that moment
};
static_assert(sizeof(Incident) == 104 + 16 * kTopSites);

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t header_size;
  // Identity
  uint32_t pid, ppid;
  int32_t rank;                   // RANK, SLURM_PROCID or OMPI_COMM_WORLD_RANK; -1 = none
  uint32_t python_version;        // 0x030c0700 as PY_VERSION_HEX; 0 = no Python
  uint64_t process_start_ticks;   // /proc/self/stat field 22: tells a live process from a reused pid
  uint64_t start_realtime_ns;     // time 0 of this capture, in CLOCK_REALTIME
  uint64_t start_monotonic_ns;    // the same in CLOCK_MONOTONIC
  uint64_t run_id;                // of the `vramtrack run` that started it; 0 = none
  uint32_t exe, argv, host, environment;  // strings; argv and environment are NUL-separated lists
  // What was recorded, and how
  PythonState python;
  UnwinderState unwinder;
  TorchState torch;
  StepSource step_source;
  std::atomic<uint32_t> steps;         // steps begun
  uint32_t began_ms;                   // age of the process at time 0 of this capture
  std::atomic<uint64_t> serial;        // allocations so far, over all spaces
  std::atomic<uint32_t> last_time_ms;  // of the last event
  std::atomic<uint32_t> backward_passes;  // begun while none ran
  std::atomic<uint64_t> lost_events;   // seen but not recorded; see stop_reason
  std::atomic<uint64_t> unknown_frees;  // frees of blocks allocated before recording began
  StopReason stop_reason;
  uint32_t stop_time_ms;
  uint32_t stop_errno;
  uint32_t stacks_cut;                 // 1: the bound on distinct stacks was reached
  uint64_t last_backward_serial;
  // How it ended
  std::atomic<uint64_t> work_ended_serial;  // events before the program began to tear itself down; 0 = it did not. Stored last
  // Number under which frees are noted. While the work goes on it is `serial`, and this field means nothing. At its end it stays
  // as it is where a program's objects are gone just before it says that it ends (Python: the locals of main()), so that the
  // tensors freed since the last allocation count as live. Elsewhere it becomes kAfterWork; so it does for what a program frees by
  // calls (all but tensors).
  uint64_t end_number;
  uint32_t work_ended_time_ms;
  uint32_t work_ended_step;
  EndKind end_kind;
  int32_t end_code;               // exit code or signal
  std::atomic<uint64_t> native_unwinds;  // stacks that were unwound; all others were verified where they lay
  uint32_t end_time_ms;           // 0 = not known
  uint32_t reserved0;
  uint64_t reserved1[5];
  Resident resident;
  Table tables[kTableCount];
};
static_assert(sizeof(Header) <= 4096);

}  // namespace vramtrack::format

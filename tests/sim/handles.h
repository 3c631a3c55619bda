// What stands behind the driver's opaque handles other than contexts?
#pragma once

#include <chrono>
#include <set>
#include <string>

#include "machine.h"

struct CUmemPoolHandle_st {
  struct Chunk {
    sim::Address address;
    size_t size_bytes;
  };
  int device = 0;  // -1: its memory is the host's
  bool is_default = false;
  unsigned long long id = 0;  // never reused
  CUmemAllocationHandleType handle_types = CU_MEM_HANDLE_TYPE_NONE;  // by which it may be exported
  int exporter = 0;  // the process whose pool `id` this is: pointers are imported into it, it has no memory. 0: a pool of this one
  bool dying = false;  // destroyed by the program while allocations live; goes at the first synchronisation without any
  sim::RangeAllocator unused;
  std::vector<Chunk> chunks;
  size_t used_bytes = 0, used_high_bytes = 0;  // what is imported counts too
  size_t reserved_bytes = 0, reserved_high_bytes = 0;
  size_t max_bytes = 0;  // 0: as much as the device has
  size_t release_threshold_bytes = 0;
  int reuse_follow_event = 1, reuse_opportunistic = 1, reuse_internal = 1;

  bool on_host() const { return device < 0; }
};

// Shared by all streams that joined one capture.
struct CaptureSequence {
  CUgraph graph = nullptr;  // registered when the capture ends well
  std::unique_ptr<CUgraph_st> owned_graph;
  CUstream origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  unsigned long long id = 0;
  bool invalidated = false;
  bool ended = false;
  std::set<CUstream> unjoined;  // forked from the origin and not waited for since
};

struct CUstream_st {
  CUcontext context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  unsigned long long id = 0;
  bool legacy_default = false;
  std::shared_ptr<CaptureSequence> capture;

  bool capturing() const { return capture != nullptr && !capture->ended; }
};

struct CUevent_st {
  CUcontext context = nullptr;
  unsigned flags = 0;
  bool recorded = false;
  std::chrono::steady_clock::time_point recorded_at;
  std::shared_ptr<CaptureSequence> capture;  // recorded last in a capturing stream: `captured_in`
  CUstream captured_in = nullptr;
};

namespace sim {
struct Physical;

// A 64 KiB piece of an array. The mip tail is a level of its own, whose pieces are numbered along x.
struct Tile {
  unsigned level = 0, layer = 0, x = 0, y = 0, z = 0;
  auto operator<=>(const Tile&) const = default;
};
using TileMap = std::map<Tile, std::shared_ptr<Physical>>;
}  // namespace sim

struct CUarray_st {
  CUcontext context = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  sim::Address address = 0;  // 0 if memory is to be mapped later
  size_t size_bytes = 0;
  size_t row_bytes = 0;  // rows are stored without gaps
  sim::TileMap tiles;    // mapped; of an array with deferred mapping only one, which stands for all
};

// Memory that is not the simulator's, mapped for as long as this lives.
struct ImportedPages {
  sim::Address address;
  size_t size_bytes;
  ~ImportedPages();
};

struct CUextMemory_st {
  CUcontext context = nullptr;
  int file = -1;  // owned
  size_t size_bytes = 0;
  ~CUextMemory_st();
};

struct CUmipmappedArray_st {
  CUcontext context = nullptr;
  std::vector<std::unique_ptr<CUarray_st>> levels;
  sim::Address address = 0;  // 0 if memory is to be mapped later, or is imported
  size_t size_bytes = 0;
  std::unique_ptr<ImportedPages> imported;
  sim::TileMap tiles;  // as an array's
};

struct CUgraphicsResource_st {
  CUcontext context = nullptr;
};

struct CUdevResourceDesc_st {
  CUdevice device = 0;
};

struct CUgreenCtx_st {
  CUcontext context = nullptr;
};

struct CUfunc_st {
  CUmodule module = nullptr;
  std::string name;
};

struct CUmod_st {
  CUcontext context = nullptr;
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};

struct CUlib_st {
  std::unique_ptr<CUmod_st> module;
};

// Address space of the allocations of one graph; lives as long as the graph or an executable of it.
struct GraphMemory {
  struct Allocation {
    int device;
    sim::Address address;
    size_t size_bytes;
  };
  std::vector<Allocation> allocations;
  ~GraphMemory();
};

struct CUgraphNode_st {
  CUgraphNodeType type;
  std::function<CUresult()> work;  // takes the machine's lock itself if it needs it
  sim::Address address = 0;        // of memory nodes
  size_t size_bytes = 0;
};

struct CUuserObject_st {
  CUhostFn destroy = nullptr;
  void* argument = nullptr;
  size_t of_program = 0, of_graphs = 0;  // references
};

// References of one graph to user objects. A copy has as many of its own.
class UserReferences {
 public:
  UserReferences() = default;
  UserReferences(const UserReferences& other);
  UserReferences& operator=(const UserReferences&) = delete;
  ~UserReferences();
  void add(CUuserObject object, size_t count);
  // False if there are not as many.
  bool remove(CUuserObject object, size_t count);

 private:
  std::map<CUuserObject, size_t> counts_;
};

struct CUgraph_st {
  std::vector<std::shared_ptr<CUgraphNode_st>> nodes;  // in an order that respects every dependency: the one of creation
  std::shared_ptr<GraphMemory> memory = std::make_shared<GraphMemory>();
  UserReferences user_objects;
};

struct CUgraphExec_st {
  std::vector<std::shared_ptr<CUgraphNode_st>> nodes;
  std::shared_ptr<GraphMemory> memory;
  UserReferences user_objects;
  unsigned long long flags = 0;
};

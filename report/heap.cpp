// The words of the heap's enums, and look-ups that several readers of a heap need.
#include "report/heap.h"

#include <algorithm>

namespace vramtrack {

std::string_view to_string(Layer layer) { return layer == Layer::kDriver ? "driver" : "pytorch"; }

std::string_view to_string(Memory memory) {
  switch (memory) {
    case Memory::kDevice: return "device";
    case Memory::kPinnedHost: return "pinned";
    case Memory::kCpu: return "cpu";
    case Memory::kImported: return "imported";
  }
  return "unknown";
}

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::kDevice: return "device";
    case Kind::kStreamOrdered: return "stream-ordered";
    case Kind::kManaged: return "managed";
    case Kind::kArray: return "array";
    case Kind::kMipmappedArray: return "mipmapped-array";
    case Kind::kPinned: return "pinned";
    case Kind::kRegistered: return "registered";
    case Kind::kCpu: return "cpu";
    case Kind::kGraphMemory: return "graph-memory";
    case Kind::kShared: return "shared";
    case Kind::kPhysical: return "physical";
    case Kind::kIpc: return "ipc";
    case Kind::kStream: return "stream";
    case Kind::kEvent: return "event";
    case Kind::kGraph: return "graph";
    case Kind::kGraphExec: return "graph-exec";
    case Kind::kModule: return "module";
    case Kind::kLibrary: return "library";
    case Kind::kTexture: return "texture";
    case Kind::kSurface: return "surface";
    case Kind::kMemoryPool: return "memory-pool";
    case Kind::kMulticast: return "multicast";
    case Kind::kUserObject: return "user-object";
    case Kind::kContext: return "context";
    case Kind::kGreenContext: return "green-context";
    case Kind::kExternalMemory: return "external-memory";
    case Kind::kGraphicsResource: return "graphics-resource";
    case Kind::kAddressRange: return "address-range";
    case Kind::kCublas: return "cublas";
    case Kind::kCublasLt: return "cublaslt";
    case Kind::kCudnn: return "cudnn";
    case Kind::kCufft: return "cufft";
    case Kind::kCurand: return "curand";
    case Kind::kCusolver: return "cusolver";
    case Kind::kCusparse: return "cusparse";
    case Kind::kNccl: return "nccl";
  }
  return "unknown";
}

std::string_view noun_of(Kind kind) {
  switch (kind) {
    case Kind::kGraphExec: return "instantiated graph";
    case Kind::kTexture: return "texture object";
    case Kind::kSurface: return "surface object";
    case Kind::kMemoryPool: return "memory pool";
    case Kind::kMulticast: return "multicast object";
    case Kind::kUserObject: return "user object";
    case Kind::kGreenContext: return "green context";
    case Kind::kExternalMemory: return "external memory object";
    case Kind::kGraphicsResource: return "graphics resource";
    case Kind::kAddressRange: return "reserved address range";
    case Kind::kCublas: return "cuBLAS handle";
    case Kind::kCublasLt: return "cuBLASLt handle";
    case Kind::kCudnn: return "cuDNN handle";
    case Kind::kCufft: return "cuFFT plan";
    case Kind::kCurand: return "cuRAND generator";
    case Kind::kCusolver: return "cuSOLVER handle";
    case Kind::kCusparse: return "cuSPARSE handle";
    case Kind::kNccl: return "NCCL communicator";
    default: return to_string(kind);
  }
}

std::string_view to_string(FrameKind kind) {
  switch (kind) {
    case FrameKind::kPython: return "python";
    case FrameKind::kNative: return "native";
    case FrameKind::kMarker: return "marker";
  }
  return "unknown";
}

std::string_view to_string(StepSource source) {
  switch (source) {
    case StepSource::kNone: return "none";
    case StepSource::kOptimizer: return "optimizer";
    case StepSource::kNvtx: return "nvtx";
    case StepSource::kApi: return "api";
  }
  return "unknown";
}

std::string device_name(const Space& space) {
  switch (space.memory) {
    case Memory::kDevice:
    case Memory::kImported: return "cuda:" + std::to_string(space.device);
    case Memory::kPinnedHost: return "pinned";
    case Memory::kCpu: return "cpu";
  }
  return "unknown";
}

namespace {

const Site* find_among(const std::vector<Site>& sites, uint32_t id) {
  // The reader leaves sites in the order of their ids; hand-built heaps may not.
  auto at = std::ranges::lower_bound(sites, id, {}, &Site::id);
  if (at == sites.end() || at->id != id) at = std::ranges::find(sites, id, &Site::id);
  return at == sites.end() ? nullptr : &*at;
}

}  // namespace

const Site* find_site(const Heap& heap, uint32_t id) {
  const Site* site = find_among(heap.sites, id);
  return site ? site : find_among(heap.handles.sites, id);
}

int driver_space(const Heap& heap, int device) {
  const auto at = std::ranges::find_if(heap.spaces, [&](const Space& space) {
    return space.layer == Layer::kDriver && space.memory == Memory::kDevice && space.device == device;
  });
  return at == heap.spaces.end() ? -1 : static_cast<int>(at - heap.spaces.begin());
}

double end_of_work(const Process& process) { return process.work_ended ? process.work_ended_time : process.duration; }

std::vector<Location> locations(const Heap& heap, const Stack& stack) {
  std::vector<Location> all;
  for (uint32_t index : stack) {
    if (index >= heap.frames.size()) continue;
    const std::vector<Location>& of_frame = heap.frames[index].locations;
    all.insert(all.end(), of_frame.begin(), of_frame.end());
  }
  return all;
}

}  // namespace vramtrack

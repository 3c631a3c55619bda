// Are streams, events, graphs or modules made again and again and never destroyed? Each holds device memory that no allocation
// call shows.
//
// The look-alike is a set of them made at the start and used for the whole run: a stream for each worker, an event for each
// slot. Those are made back to back, and something else follows.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/categories.h"
#include "report/diagnose/families.h"
#include "report/diagnose/survivors.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr uint64_t kFewestHandles = 16;
constexpr uint64_t kFewestHeavy = 6;        // of those that each take tens or hundreds of megabytes
constexpr uint64_t kManyBackToBack = 1000;  // more than anybody makes in advance
constexpr uint64_t kManyStreams = 200;      // a device runs 128 side by side
constexpr uint64_t kManyAllAlong = 64;      // made one by one through the whole run
constexpr uint64_t kSureHandles = 50;
constexpr double kMadeInAdvance = 0.5;      // of all that the program makes and allocates: as much followed without them

using Group = std::vector<const Site*>;  // of one kind, made in one function

bool is_of_library(Kind kind) { return kind >= Kind::kCublas && kind <= Kind::kNccl; }

bool is_heavy(Kind kind) { return kind == Kind::kContext || is_of_library(kind); }

// A library's handle brings streams and events of its own, made in the same call: it is the story.
bool came_with_library_handle(const Heap& heap, const Site& site) {
  return !is_of_library(site.kind) && std::ranges::any_of(heap.handles.sites, [&](const Site& handle) {
    return is_of_library(handle.kind) && !handle.stack.empty() && handle.stack == site.stack && handle.api == site.api;
  });
}

std::vector<Group> growing_groups(const Examination& exam) {
  std::map<std::pair<std::string, Kind>, Group> groups;
  for (size_t i = 0; i < exam.growth_of_handles.size(); ++i) {
    const Site& site = exam.heap.handles.sites[i];
    const bool is_told = came_with_library_handle(exam.heap, site);
    if (exam.growth_of_handles[i].shape == Shape::kRising && !is_told) groups[{function_key(exam.heap, site), site.kind}].push_back(&site);
  }
  std::vector<Group> list;
  for (auto& [key, group] : groups) list.push_back(std::move(group));
  return list;
}

uint64_t count_of(const Group& group) {
  uint64_t count = 0;
  for (const Site* site : group) count += site->end_blocks;
  return count;
}

bool are_made_for_the_run(const Examination& exam, const Group& group) {
  Span span;
  for (const Site* site : group) extend(span, *site);
  const bool in_one_go = density_of(exam, span) > kBackToBack;
  if (std::ranges::any_of(group, [&](const Site* site) { return is_used_for_a_while(exam.heap, *site, in_one_go); })) return true;
  const double all = static_cast<double>(exam.heap.process.allocations);
  if (static_cast<double>(span.last) < kMadeInAdvance * all) return true;
  const bool all_along = std::ranges::any_of(group, [&](const Site* site) { return is_made_all_along(exam.heap, *site); });
  const uint64_t many = group.front()->kind == Kind::kStream ? kManyStreams : kManyBackToBack;
  return in_one_go && count_of(group) < (all_along ? kManyAllAlong : many);
}

std::string_view destroyer(Kind kind) {
  switch (kind) {
    case Kind::kStream: return "cudaStreamDestroy";
    case Kind::kEvent: return "cudaEventDestroy";
    case Kind::kGraph: return "cudaGraphDestroy";
    case Kind::kGraphExec: return "cudaGraphExecDestroy";
    case Kind::kModule: return "cuModuleUnload";
    case Kind::kLibrary: return "cudaLibraryUnload";
    case Kind::kTexture: return "cudaDestroyTextureObject";
    case Kind::kSurface: return "cudaDestroySurfaceObject";
    case Kind::kMemoryPool: return "cudaMemPoolDestroy";
    case Kind::kMulticast: return "cuMemRelease";
    case Kind::kUserObject: return "cudaUserObjectRelease";
    case Kind::kContext: return "cuCtxDestroy";
    case Kind::kGreenContext: return "cuGreenCtxDestroy";
    case Kind::kExternalMemory: return "cudaDestroyExternalMemory";
    case Kind::kGraphicsResource: return "cudaGraphicsUnregisterResource";
    case Kind::kAddressRange: return "cuMemAddressFree";
    case Kind::kCublas: return "cublasDestroy";
    case Kind::kCublasLt: return "cublasLtDestroy";
    case Kind::kCudnn: return "cudnnDestroy";
    case Kind::kCufft: return "cufftDestroy";
    case Kind::kCurand: return "curandDestroyGenerator";
    case Kind::kCusolver: return "its library's destroy function";
    case Kind::kCusparse: return "cusparseDestroy";
    case Kind::kNccl: return "ncclCommDestroy";
    default: return "its destroy function";
  }
}

// Handles of the same function that are destroyed each time: this kind was forgotten.
std::string siblings_text(const Heap& heap, const Site& leaking) {
  for (const Site& site : heap.handles.sites) {
    if (is_freed_each_time(site) && site.kind != leaking.kind && site.kind != Kind::kContext && function_key(heap, site) == function_key(heap, leaking)) {
      return fmt::format("the {} of the same function are destroyed each time: this one is forgotten", plural_of(noun_of(site.kind)));
    }
  }
  return "";
}

// Address ranges cannot be freed while memory is mapped into them: where that leaks, it is the story.
bool is_told_by_its_memory(const Examination& exam, const Group& group) {
  if (group.front()->kind != Kind::kAddressRange) return false;
  for (SiteIndex i = 0; i < exam.heap.sites.size(); ++i) {
    const Site& memory = exam.heap.sites[i];
    const bool piles_up = memory.kind == Kind::kPhysical && exam.growth[i].shape == Shape::kRising;
    if (piles_up && std::ranges::any_of(memory.survivors, [](const Block& block) { return block.mappings > 0; })) return true;
  }
  return false;
}

// What the driver allocated while these handles were made: theirs, and gone with them.
std::vector<SiteIndex> memory_made_with(const Examination& exam, const Group& group) {
  std::vector<SiteIndex> sites;
  for (SiteIndex i = 0; i < exam.heap.sites.size(); ++i) {
    const Site& memory = exam.heap.sites[i];
    const bool is_theirs = std::ranges::any_of(group, [&](const Site* handle) {
      return !handle->stack.empty() && handle->stack == memory.stack && handle->api == memory.api;
    });
    if (is_theirs && !exam.explained[i] && memory.end_blocks > 0) sites.push_back(i);
  }
  return sites;
}

void add_memory(Examination& exam, const Group& group, Finding& finding) {
  const std::vector<SiteIndex> sites = memory_made_with(exam, group);
  for (SiteIndex i : sites) {
    finding.bytes += exam.heap.sites[i].end_bytes;
    exam.explained[i] = true;
  }
  if (group.front()->kind == Kind::kAddressRange) {
    finding.evidence.push_back("they take no memory, but address space, which the driver can run out of");
  } else if (finding.bytes == 0) {
    finding.evidence.push_back("each holds memory of the device and of the host that no allocation shows");
  } else {
    finding.evidence.push_back(fmt::format("{} were allocated while they were made, and more that no allocation shows", size_text(finding.bytes)));
  }
}

Finding handle_leak(Examination& exam, Group group) {
  const Heap& heap = exam.heap;
  std::ranges::stable_sort(group, std::greater<>(), &Site::end_blocks);
  const Site& first = *group.front();
  Finding finding;
  finding.id = first.kind == Kind::kAddressRange ? "vmm-leak" : "handle-leak";
  finding.severity = Severity::kLeak;
  finding.kind = first.kind;
  finding.space = driver_space(heap, heap.handles.spaces[first.space].device);
  finding.first_step = first.first_step;
  uint64_t made = 0, destroyed = 0;
  for (const Site* site : group) {
    made += site->allocations;
    destroyed += site->allocations - site->end_blocks;
    finding.blocks += site->end_blocks;
    finding.first_step = std::min(finding.first_step, site->first_step);
    finding.last_step = std::max(finding.last_step, site->last_step);
    finding.sites.push_back({site->id, site->stack, 0, site->end_blocks, site->allocations, site->frees, ""});
  }
  finding.confidence = finding.blocks >= kSureHandles ? Confidence::kHigh : Confidence::kMedium;
  const std::string place = place_text(heap, first.stack);
  finding.title = fmt::format("{} made at {} are never destroyed", count_text(finding.blocks, noun_of(first.kind)), place);
  finding.evidence = {fmt::format("{} made, {} destroyed, and their number was still rising when the work ended", made, destroyed)};
  if (std::string forgotten = siblings_text(heap, first); !forgotten.empty()) finding.evidence.push_back(std::move(forgotten));
  add_memory(exam, group, finding);
  finding.advice = fmt::format("Make it once outside the loop and use it again, or give what {} makes an owner that calls `{}` on "
                               "every way out.", place, destroyer(first.kind));
  return finding;
}

}  // namespace

std::vector<Finding> find_handle_leaks(Examination& exam) {
  std::vector<Finding> found;
  for (const Group& group : growing_groups(exam)) {
    const uint64_t fewest = is_heavy(group.front()->kind) ? kFewestHeavy : kFewestHandles;
    if (count_of(group) < fewest || are_made_for_the_run(exam, group) || is_told_by_its_memory(exam, group)) continue;
    found.push_back(handle_leak(exam, group));
  }
  return found;
}

}  // namespace vramtrack

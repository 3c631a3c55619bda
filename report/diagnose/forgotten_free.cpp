// Which driver allocations are made again and again and not freed: device memory forgotten, what threads
// or graphs leave behind, pinned memory piling up?
//
// Hardest to tell from them are buffers made once in a loop and used for the rest of the run: weights of each layer, slots of
// a ring. Those are made back to back, and followed by other work; a leak goes on to the end of it. Where a program allocates
// nothing else, order tells nothing, and only many blocks speak for a leak.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "report/categories.h"
#include "report/diagnose/families.h"
#include "report/diagnose/survivors.h"
#include "report/diagnose/wording.h"

namespace vramtrack {
namespace {

constexpr uint64_t kManyBackToBack = 32;  // more than the layers or slots a program usually makes in one loop
constexpr uint64_t kManyAllAlong = 12;    // the same, one by one through the whole run
constexpr uint64_t kFewestBlocks = 6;     // fewer are things of a program, not of its iterations
constexpr uint64_t kSureBlocks = 20;
constexpr uint64_t kFewestOutgrown = 12;  // nobody makes that many in advance, each larger than the one before
constexpr double kMostlyKept = 0.9;
constexpr uint64_t kTinyBlock = 4096;
constexpr size_t kFewestThreads = 16;     // fewer may be the program's workers
constexpr double kBlocksOfAThread = 4;

bool is_pinned(const Space& space) { return space.memory == Memory::kPinnedHost; }

Span span_of(const Examination& exam, std::span<const SiteIndex> sites) {
  Span span;
  for (SiteIndex i : sites) extend(span, exam.heap.sites[i]);
  return span;
}

// By its own code on its way out: at the end of main(), or by the destructors of what is static. (An interpreter's teardown frees
// whatever was forgotten.)
bool is_freed_at_end(const Examination& exam, SiteIndex i) {
  const Site& site = exam.heap.sites[i];
  const bool torn_down = exam.heap.process.python_version.empty() && site.live_blocks == 0 && site.end_blocks > 0;
  return exam.growth[i].fell_at_end || torn_down;
}

bool all_freed_at_end(const Examination& exam, std::span<const SiteIndex> sites) {
  return std::ranges::all_of(sites, [&](SiteIndex i) { return is_freed_at_end(exam, i); });
}

bool are_used_for_a_while(const Heap& heap, std::span<const SiteIndex> sites, bool in_one_go) {
  return std::ranges::any_of(sites, [&](SiteIndex i) { return is_used_for_a_while(heap, heap.sites[i], in_one_go); });
}

// Buffers of the program, made for the run, rather than one more in each iteration.
bool are_made_for_the_run(const Examination& exam, std::span<const SiteIndex> sites) {
  uint64_t blocks = 0;
  for (SiteIndex i : sites) blocks += held_blocks(exam, i);
  if (blocks < kFewestBlocks) return true;
  const bool freed_at_end = all_freed_at_end(exam, sites), back_to_back = density_of(exam, span_of(exam, sites)) > kBackToBack;
  if (are_used_for_a_while(exam.heap, sites, back_to_back)) return true;
  if (freed_at_end && back_to_back) return true;  // a pool, built and taken down
  const bool all_along = std::ranges::any_of(sites, [&](SiteIndex i) { return is_made_all_along(exam.heap, exam.heap.sites[i]); });
  return (freed_at_end || back_to_back) && blocks < (all_along ? kManyAllAlong : kManyBackToBack);
}

// A buffer that is made anew when it is too small, whose old one is not freed. It comes to rest when it is large enough. Levels of a
// pyramid are larger one after the other as well, but fewer, and made without anything between; but whoever frees the last one alone
// has lost the others.
bool is_outgrown(const Site& site) {
  const double span = static_cast<double>(site.last_serial - site.first_serial + 1);
  const bool in_one_go = static_cast<double>(site.allocations) > kBackToBack * span;
  const bool only_last_freed = site.frees == 1 && !site.survivors.empty() && site.survivors.back().serial < site.last_serial;
  const uint64_t fewest = in_one_go && !only_last_freed ? kManyBackToBack : kFewestOutgrown;
  const bool ever_larger = site.new_max_sizes == site.allocations, kept = site.end_blocks >= kMostlyKept * site.allocations;
  return site.allocations >= fewest && ever_larger && kept;
}

std::vector<SiteIndex> piling_up(const Examination& exam, int space) {
  std::vector<SiteIndex> sites = unexplained(exam, space, Shape::kRising);
  for (SiteIndex i = 0; i < exam.heap.sites.size(); ++i) {
    const Site& site = exam.heap.sites[i];
    const bool other = !exam.explained[i] && site.space == space && exam.growth[i].shape != Shape::kRising;
    if (other && is_outgrown(site)) sites.push_back(i);
  }
  return sites;
}

// What kind of thing it is that piles up: each is a finding of its own, with its own advice.
enum class Cause { kForgotten, kPinned, kGraph, kThreads, kVirtual, kImported };

// Every block is another thread's, and those threads came one after the other.
bool is_left_by_threads(const Site& site) {
  std::set<uint32_t> threads;
  for (const Block& block : site.survivors) threads.insert(block.thread);
  const double each = static_cast<double>(site.survivors.size()) / static_cast<double>(std::max<size_t>(threads.size(), 1));
  return threads.size() >= kFewestThreads && each <= kBlocksOfAThread;
}

Cause cause_of(const Heap& heap, const Site& site) {
  if (space_of(heap, site).memory == Memory::kImported) return Cause::kImported;
  if (site.kind == Kind::kPhysical) return Cause::kVirtual;
  if (is_pinned(space_of(heap, site))) return Cause::kPinned;
  if (site.kind == Kind::kGraphMemory) return Cause::kGraph;
  return is_left_by_threads(site) ? Cause::kThreads : Cause::kForgotten;
}

std::string_view id_of(Cause cause) {
  switch (cause) {
    case Cause::kForgotten: return "forgotten-free";
    case Cause::kPinned: return "pinned-growth";
    case Cause::kGraph: return "graph-memory";
    case Cause::kThreads: return "per-thread-growth";
    case Cause::kVirtual: return "vmm-leak";
    case Cause::kImported: return "ipc-mapping-held";
  }
  return "forgotten-free";
}

// The sites that are freed each time, by function: a destructor that forgets one member frees the others.
struct FreedSites {
  std::map<std::string, std::vector<const Site*>> of_function;
  std::set<std::string> lines;
};

FreedSites freed_sites(const Heap& heap, int space) {
  FreedSites freed;
  for (const Site& site : heap.sites) {
    if (site.space != space || !is_freed_each_time(site)) continue;
    freed.of_function[function_key(heap, site)].push_back(&site);
    freed.lines.insert(place_text(heap, site.stack));
  }
  return freed;
}

// The function that ought to free. Where a line's blocks are freed for one caller and not for another, that is the caller.
std::string responsible_function(const Heap& heap, const FreedSites& freed, const Site& site) {
  const std::vector<Location> lines = user_lines(heap, site.stack);
  const bool is_helper = lines.size() > 1 && freed.lines.contains(place_text(lines.front()));
  return is_helper ? function_key(lines[1]) : function_key(heap, site);
}

// Sites of one function are one cause: the same object forgets them all. What went when the program ended was not forgotten.
std::vector<std::vector<SiteIndex>> by_function(const Examination& exam, const FreedSites& freed, const std::vector<SiteIndex>& sites) {
  std::map<std::tuple<std::string, Cause, bool>, std::vector<SiteIndex>> groups;
  for (SiteIndex i : sites) {
    const Site& site = exam.heap.sites[i];
    groups[{responsible_function(exam.heap, freed, site), cause_of(exam.heap, site), is_freed_at_end(exam, i)}].push_back(i);
  }
  std::vector<std::vector<SiteIndex>> list;
  for (auto& [function, group] : groups) list.push_back(std::move(group));
  return list;
}

std::string siblings_text(const Heap& heap, const std::vector<const Site*>& siblings, const Site& site) {
  for (const Site* other : siblings) {
    const std::vector<Location> its = user_lines(heap, other->stack), ours = user_lines(heap, site.stack);
    if (its.size() < 2 || ours.size() < 2 || place_text(its[0]) != place_text(ours[0])) continue;
    return fmt::format("what the same line allocates for {} is freed each time: it is this caller that forgets", place_text(its[1]));
  }
  return fmt::format("{} of the same function {} freed each time: this one is forgotten", count_text(siblings.size(), "other allocation"),
                     siblings.size() == 1 ? "is" : "are");
}

bool is_overwritten(const Site& site) {
  return site.new_max_sizes == site.allocations || (site.size_changes > 0 && site.size_changes + 1 >= site.allocations);
}

// How it came about, as far as the numbers of the site tell; "" = they do not.
std::string sub_cause(const Heap& heap, const FreedSites& freed, const Site& site) {
  if (site.frees > site.allocations / 10) {
    return fmt::format("freed on {} of {} ways through: some path leaves without the free", site.frees, site.allocations);
  }
  if (const auto siblings = freed.of_function.find(function_key(heap, site)); siblings != freed.of_function.end()) {
    return siblings_text(heap, siblings->second, site);
  }
  if (site.new_max_sizes == site.allocations) return "each is larger than all before, which are not freed: outgrown buffers are dropped";
  if (is_overwritten(site)) {
    return "a new block is made only when the size changes, while the old one is alive: its pointer is overwritten";
  }
  return site.size_max <= kTinyBlock ? "small blocks of one kind, never freed" : "";
}

std::string_view right_free(const Site& site) {
  switch (site.kind) {
    case Kind::kStreamOrdered: return "cudaFreeAsync";
    case Kind::kArray: return "cudaFreeArray";
    case Kind::kMipmappedArray: return "cudaFreeMipmappedArray";
    case Kind::kPinned: return "cudaFreeHost";
    case Kind::kRegistered: return "cudaHostUnregister";
    default: return "cudaFree";
  }
}

Confidence confidence_of(const Examination& exam, std::span<const SiteIndex> sites, uint64_t blocks) {
  const bool alone = density_of(exam, span_of(exam, sites)) > kBackToBack;
  const bool steady = std::ranges::any_of(sites, [&](SiteIndex i) { return exam.growth[i].even; });
  return blocks >= kSureBlocks && steady && !alone && !all_freed_at_end(exam, sites) ? Confidence::kHigh : Confidence::kMedium;
}

// "" or " and 12 other functions".
std::string others_text(const Heap& heap, std::span<const SiteIndex> sites) {
  std::set<std::string> functions;
  for (SiteIndex i : sites) functions.insert(function_key(heap, heap.sites[i]));
  return functions.size() < 2 ? "" : " and " + count_text(functions.size() - 1, "other function");
}

std::string counts_text(const Heap& heap, std::span<const SiteIndex> sites) {
  uint64_t allocations = 0, frees = 0;
  for (SiteIndex i : sites) allocations += heap.sites[i].allocations, frees += heap.sites[i].frees;
  return fmt::format("{}, {}", count_text(allocations, "allocation"), count_text(frees, "free"));
}

std::string freed_at_end_text(const Examination& exam, std::span<const SiteIndex> sites, uint64_t held) {
  uint64_t made = 0;
  for (SiteIndex i : sites) made += exam.heap.sites[i].allocations;
  if (made <= held) return "all of it was freed when the program ended, and none before";
  return fmt::format("{} were freed when the program ended, {} before", held, made - held);
}

std::string title_of(Cause cause, const std::string& place, uint64_t bytes, bool freed_at_end) {
  const std::string size = size_text(static_cast<double>(bytes));
  if (freed_at_end) return fmt::format("Memory allocated at {} piles up until the program's end: {}", place, size);
  switch (cause) {
    case Cause::kPinned: return fmt::format("Page-locked host memory from {} piles up: {}", place, size);
    case Cause::kGraph: return fmt::format("Memory that graphs allocate by a node made at {} is not freed: {}", place, size);
    case Cause::kVirtual: return fmt::format("Physical memory created at {} is not given back: {}", place, size);
    case Cause::kImported: return fmt::format("Other processes' memory opened at {} is not closed: {}", place, size);
    case Cause::kThreads: return fmt::format("Each new thread leaves memory behind that it allocated at {}: {}", place, size);
    case Cause::kForgotten: break;
  }
  return fmt::format("Memory allocated at {} is not freed: {}", place, size);
}

// Physical memory lives until no handle and no mapping refers to it: which of them were forgotten?
struct Holders {
  size_t by_handle = 0, by_mapping = 0, by_both = 0;
};

Holders holders_of(const Site& site) {
  Holders holders;
  for (const Block& block : site.survivors) {
    ++(block.references == 0 ? holders.by_mapping : block.mappings == 0 ? holders.by_handle : holders.by_both);
  }
  return holders;
}

std::string holders_text(const Site& site) {
  const Holders holders = holders_of(site);
  std::vector<std::string> parts;
  if (holders.by_handle != 0) parts.push_back(fmt::format("{} by a handle that was not released", holders.by_handle));
  if (holders.by_mapping != 0) parts.push_back(fmt::format("{} by a mapping, the handle being released", holders.by_mapping));
  if (holders.by_both != 0) parts.push_back(fmt::format("{} by both a handle and a mapping", holders.by_both));
  return fmt::format("held: {}", fmt::join(parts, ", "));
}

std::string virtual_advice(const Site& site) {
  const Holders holders = holders_of(site);
  if (holders.by_mapping == 0 && holders.by_both == 0) {
    return "Call `cuMemRelease` for each handle, once for `cuMemCreate` and once for each retain or import; right after `cuMemMap` is early "
           "enough: the mapping keeps the memory.";
  }
  if (holders.by_handle == 0 && holders.by_both == 0) return "Call `cuMemUnmap` for the range before it is freed or reused.";
  return "Give the mapping and the handle one owner that calls `cuMemUnmap` and `cuMemRelease`: the memory lives until both are gone.";
}

std::string advice_for(Cause cause, const std::string& place, const Site& site) {
  switch (cause) {
    case Cause::kPinned:
      return fmt::format("Free it with `{}`, or stage through one pinned buffer made once (in PyTorch: `pin_memory` of a loader, not "
                         "of every batch).", right_free(site));
    case Cause::kGraph:
      return "Free the memory inside the graph (`cudaFreeAsync` in the capture, a free node), or with `cudaFreeAsync` after each launch; "
             "instantiate the graph once and launch it again rather than capturing it anew.";
    case Cause::kThreads:
      return fmt::format("Free it with `{}` before the thread ends (a thread-local owner does), or keep a pool of threads.",
                         right_free(site));
    case Cause::kVirtual: return virtual_advice(site);
    case Cause::kImported:
      return fmt::format("Close what {} opens (`{}`) when it is no longer read: the exporting process's memory stays allocated while it "
                         "is open.", place, site.kind == Kind::kIpc ? "cudaIpcCloseMemHandle" : "cuMemUnmap`, `cuMemRelease");
    case Cause::kForgotten: break;
  }
  if (is_overwritten(site)) {
    return fmt::format("Call `{}` for the old block before its pointer is overwritten at {}.", right_free(site), place);
  }
  return fmt::format("Give what {} allocates an owner that calls `{}` on every way out (RAII), or reuse one buffer.", place,
                     right_free(site));
}

Finding growing_blocks(Examination& exam, const FreedSites& freed, const std::vector<SiteIndex>& sites) {
  const Site& first = exam.heap.sites[sites.front()];
  const Cause cause = cause_of(exam.heap, first);
  std::vector<Share> shares = shares_held(exam, sites);
  uint64_t blocks = 0;
  for (const Share& share : shares) blocks += share.blocks;
  const Confidence sure = confidence_of(exam, sites, blocks);
  Finding finding = make_finding(exam, id_of(cause), Severity::kLeak, sure, std::move(shares));
  const std::string place = place_among_others(exam.heap, finding.sites.front().stack) + others_text(exam.heap, sites);
  const bool freed_at_end = all_freed_at_end(exam, sites);
  finding.title = title_of(cause, place, finding.bytes, freed_at_end);
  finding.evidence = {counts_text(exam.heap, sites)};
  if (exam.growth[sites.front()].shape == Shape::kRising) finding.evidence.push_back(rate_text(exam.heap, finding));
  if (std::string how = freed_at_end ? "" : sub_cause(exam.heap, freed, first); !how.empty()) finding.evidence.push_back(std::move(how));
  if (cause == Cause::kVirtual && !first.survivors.empty()) finding.evidence.push_back(holders_text(first));
  if (cause == Cause::kThreads) finding.evidence.push_back("the blocks are each another thread's: none frees what it made");
  if (freed_at_end) finding.evidence.push_back(freed_at_end_text(exam, sites, blocks));
  finding.advice = advice_for(cause, place, first);
  return finding;
}

double bytes_of(const Examination& exam, std::span<const SiteIndex> sites) {
  double bytes = 0;
  for (SiteIndex i : sites) bytes += static_cast<double>(held_bytes(exam, i));
  return bytes;
}

}  // namespace

std::vector<Finding> find_forgotten_frees(Examination& exam) {
  std::vector<Finding> found;
  for (int space = 0; space < static_cast<int>(exam.heap.spaces.size()); ++space) {
    if (exam.heap.spaces[space].layer != Layer::kDriver) continue;
    const FreedSites freed = freed_sites(exam.heap, space);
    std::map<Cause, std::vector<SiteIndex>> scattered;  // over functions none of which would be worth a word
    for (const std::vector<SiteIndex>& sites : by_function(exam, freed, piling_up(exam, space))) {
      const bool outgrown = std::ranges::any_of(sites, [&](SiteIndex i) { return is_outgrown(exam.heap.sites[i]); });
      if (!outgrown && are_made_for_the_run(exam, sites)) continue;  // never-freed lists them
      if (is_worth_a_leak(exam.heap, space, bytes_of(exam, sites))) {
        found.push_back(growing_blocks(exam, freed, sites));
      } else {
        std::vector<SiteIndex>& others = scattered[cause_of(exam.heap, exam.heap.sites[sites.front()])];
        others.insert(others.end(), sites.begin(), sites.end());
      }
    }
    for (const auto& [cause, sites] : scattered) {
      if (is_worth_a_leak(exam.heap, space, bytes_of(exam, sites))) found.push_back(growing_blocks(exam, freed, sites));
    }
  }
  return found;
}

}  // namespace vramtrack

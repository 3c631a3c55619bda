// What takes a device's memory and is no leak: memory taken in advance, caches and pools that keep what nothing uses, caches in pieces,
// contexts on another rank's device, a process that grows on the host. Each with its look-alikes.
#include <gtest/gtest.h>

#include "report/ledger.h"
#include "report/pools.h"
#include "report/segments.h"
#include "tests/unit/diagnose/expectations.h"
#include "tests/unit/diagnose/heap_builder.h"

namespace vramtrack {
namespace {

constexpr uint64_t kGiB = 1024 * kMiB;

// --- preallocation -------------------------------------------------------------------------------------------------------

struct Jax : Story {
  Jax() : Story(Layer::kDriver, Memory::kDevice) {
    heap().spaces[0].total_bytes = 100 * kGiB;
    heap().process.python_version = "3.12.3";
    heap().modules.push_back({"/opt/venv/lib/python3.12/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so"});
  }
  SiteId pool() {
    const Line user = line("train.py", 12, "main");
    return site(on_top_of(user, native(static_cast<int>(heap().modules.size()) - 1, "BFCAllocator::Extend")));
  }
};

TEST(preallocation, most_of_the_device_at_the_first_operation_is_told_and_no_leak) {
  Jax program;
  program.keep(program.pool(), 75 * kGiB);
  const Heap heap = program.end();
  EXPECT_EQ(said(heap), "preallocation/info");
  EXPECT_NE(finding(heap, "preallocation").advice.find("XLA_PYTHON_CLIENT_PREALLOCATE=false"), std::string::npos);
  EXPECT_NE(finding(heap, "preallocation").evidence[0].find("75 %"), std::string::npos) << finding(heap, "preallocation").evidence[0];
}

TEST(preallocation, a_small_pool_of_jax_is_nothing_to_tell) {
  Jax program;
  program.keep(program.pool(), 2 * kGiB);
  EXPECT_EQ(finding(program.end(), "preallocation").id, "");
}

TEST(preallocation, the_programs_own_arena_is_its_own) {
  Story program(Layer::kDriver, Memory::kDevice);
  program.heap().spaces[0].total_bytes = 100 * kGiB;
  program.keep(program.site(program.native_line("arena.cpp", 8, "Arena")), 75 * kGiB);
  EXPECT_EQ(finding(program.end(), "preallocation").id, "");
}

// --- PyTorch's cache -----------------------------------------------------------------------------------------------------

// Sixty moments of a training, one a second: what PyTorch held, and how much of it was in use.
template <typename Held, typename Used>
Heap training(Held held, Used used) {
  Story program;
  for (int step = 0; step < 60; ++step) {
    program.step();
    program.pass(program.in_forward(program.line("train.py", 9, "main"), "linear"), kMiB);
    program.wait(1);
  }
  Heap heap = program.end();
  Space& space = heap.spaces[0];
  for (uint32_t i = 0; i < 60; ++i) space.series.push_back({static_cast<double>(i), i, used(i) / 2, used(i), held(i)});
  space.reserved_bytes = held(59);
  return heap;
}

TEST(cached, what_nothing_has_used_for_half_the_run_could_be_given_back) {
  const Heap heap = training([](uint32_t) { return 10 * kGiB; }, [](uint32_t i) { return i < 15 ? 9 * kGiB : 2 * kGiB; });
  const Finding waste = finding(heap, "cached-unused");
  EXPECT_EQ(said(heap), "cached-unused/waste");
  EXPECT_EQ(waste.bytes, 8 * kGiB);
  EXPECT_NE(waste.title.find("since step 15 (15.0 s)"), std::string::npos) << waste.title;
  EXPECT_NE(waste.advice.find("torch.cuda.empty_cache()"), std::string::npos);
}

TEST(cached, a_cache_that_each_step_fills_is_used) {
  EXPECT_EQ(said(training([](uint32_t) { return 10 * kGiB; }, [](uint32_t) { return 9 * kGiB; })), "");
}

TEST(cached, a_phase_that_needs_it_again_uses_it) {
  EXPECT_EQ(said(training([](uint32_t) { return 10 * kGiB; }, [](uint32_t i) { return i % 20 == 19 ? 9 * kGiB : 2 * kGiB; })), "");
}

TEST(cached, a_small_programs_rounding_is_nothing_to_tell) {
  EXPECT_EQ(said(training([](uint32_t) { return 42 * kMiB; }, [](uint32_t) { return 3 * kMiB; })), "");
}

TEST(fragmentation, a_cache_that_grows_over_flat_use_falls_into_pieces) {
  const Heap heap = training([](uint32_t i) { return (10 + i / 10) * kGiB; }, [](uint32_t) { return 9 * kGiB; });
  EXPECT_EQ(said(heap), "fragmentation/waste");
  EXPECT_NE(finding(heap, "fragmentation").advice.find("expandable_segments:True"), std::string::npos);
}

TEST(fragmentation, a_cache_that_grows_with_use_is_none) {
  const auto grows = [](uint32_t i) { return (10 + i / 10) * kGiB; };
  EXPECT_EQ(finding(training(grows, [&](uint32_t i) { return grows(i) - kGiB; }), "fragmentation").id, "");
}

TEST(fragmentation, a_cache_that_grew_once_is_none) {
  EXPECT_EQ(said(training([](uint32_t i) { return (i < 20 ? 10 : 12) * kGiB; }, [](uint32_t) { return 9 * kGiB; })), "");
}

// Two segments of 20 MiB, each kept by one small tensor.
Heap pinned_segments_heap() {
  Story program;
  const int driver = program.space(Layer::kDriver, Memory::kDevice);
  const Story::SiteId segment = program.site(program.native_line("CUDACachingAllocator.cpp", 1, "malloc"), driver, Kind::kDevice);
  const Story::SiteId tensor = program.site(program.line("train.py", 30, "log_loss"));
  Heap heap = program.end();
  for (uint64_t i : {1, 2}) {
    heap.sites[segment].survivors.push_back({i * kGiB, 20 * kMiB, 2 * i, 0, 1, 1, 0});
    heap.sites[tensor].survivors.push_back({i * kGiB + kMiB, kMiB, 2 * i + 1, 0, 1, 1, 0});
  }
  heap.sites[segment].end_bytes = heap.sites[segment].live_bytes = heap.spaces[static_cast<size_t>(driver)].live_bytes = 40 * kMiB;
  heap.sites[tensor].end_bytes = heap.sites[tensor].live_bytes = heap.spaces[0].live_bytes = 2 * kMiB;
  heap.sites[tensor].end_blocks = heap.sites[segment].end_blocks = 2;
  heap.spaces[0].reserved_bytes = 40 * kMiB;
  return heap;
}

TEST(fragmentation, a_refusal_beside_enough_cached_memory_names_the_blocks_that_pin_it) {
  Heap heap = pinned_segments_heap();
  Incident refusal;
  refusal.kind = IncidentKind::kOutOfMemory;
  refusal.space = 0;
  refusal.count = 1;
  refusal.size = 30 * kMiB;
  refusal.live_bytes = 2 * kMiB;
  refusal.reserved_bytes = 40 * kMiB;
  heap.incidents.push_back(refusal);
  const Finding waste = finding(heap, "fragmentation");
  EXPECT_EQ(waste.confidence, Confidence::kHigh);
  EXPECT_EQ(waste.bytes, 38 * kMiB);
  ASSERT_FALSE(waste.sites.empty());
  EXPECT_EQ(waste.sites[0].blocks, 2u);
  EXPECT_NE(waste.evidence[1].find("train.py:30"), std::string::npos) << waste.evidence[1];
  heap.incidents[0].size = 50 * kMiB;
  EXPECT_EQ(finding(heap, "fragmentation").id, "") << "all that was cached would not have been enough";
}

TEST(segments, what_lies_beside_live_blocks_is_fragmented) {
  const Heap heap = pinned_segments_heap();
  const std::vector<Segment> segments = pinned_segments(heap, 0);
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].live_bytes, kMiB);
  EXPECT_EQ(fragmented_bytes(segments), 38 * kMiB);
  EXPECT_EQ(ledger(heap)[0].cached_bytes, 38 * kMiB);
  EXPECT_EQ(ledger(heap)[0].fragmented_bytes, 38 * kMiB);
}

// --- streams of PyTorch ------------------------------------------------------------------------------------------------------

// Two segments of 1 GiB: of the default stream, in use, and of a side stream on which something was allocated last in `last_step` of 100.
Heap two_streams(uint32_t last_step, uint64_t live_on_side = 0) {
  Story program;
  const int driver = program.space(Layer::kDriver, Memory::kDevice);
  const Line user = program.line("train.py", 20, "prefetch");
  const Story::SiteId segment = program.site(program.on_top_of(user, program.native(1, "c10::cuda::CUDACachingAllocator::malloc")), driver, Kind::kDevice);
  const Story::SiteId tensor = program.site(user);
  for (int step = 0; step < 100; ++step) {
    program.step();
    program.pass(tensor, kMiB);
  }
  Heap heap = program.end();
  heap.streams = {{0, 0, 100, 10, 100}, {1234, 0, last_step, 1, last_step}};
  for (int stream : {0, 1}) {
    const uint64_t address = kGiB * static_cast<uint64_t>(stream + 1);
    Block block{address, kGiB, 1 + static_cast<uint64_t>(stream), 0, 1, 1, 0};
    block.stream = stream;
    heap.sites[segment].survivors.push_back(block);
    block.size = stream == 0 ? kGiB : live_on_side;
    if (block.size > 0) heap.sites[tensor].survivors.push_back(block);
  }
  heap.sites[segment].end_bytes = heap.sites[segment].live_bytes = 2 * kGiB;
  return heap;
}

TEST(streams, what_a_side_stream_left_behind_serves_no_other) {
  const Heap heap = two_streams(10);
  const Finding waste = finding(heap, "stranded-stream");
  EXPECT_EQ(waste.severity, Severity::kWaste);
  EXPECT_EQ(waste.bytes, kGiB);
  EXPECT_NE(waste.title.find("since step 10"), std::string::npos) << waste.title;
  EXPECT_NE(waste.evidence[0].find("train.py:20"), std::string::npos) << waste.evidence[0];
}

TEST(streams, a_side_stream_that_steps_use_or_whose_memory_is_in_use_is_none) {
  EXPECT_EQ(finding(two_streams(98), "stranded-stream").id, "");
  EXPECT_EQ(finding(two_streams(10, kGiB), "stranded-stream").id, "");
}

// --- the driver's pools ----------------------------------------------------------------------------------------------------

Heap pool_heap(uint64_t threshold, uint64_t used_late) {
  Story program(Layer::kDriver, Memory::kDevice);
  const Line setter = program.native_line("pool.cpp", 4, "setup");
  program.pass(program.site(program.native_line("pool.cpp", 9, "work"), 0, Kind::kStreamOrdered), kMiB);
  program.wait(100);
  Heap heap = program.end();
  heap.sites[0].survivors.push_back({0x1000, used_late, 1, 7, 1, 0, 100});
  Pool pool;
  pool.handle = 7, pool.device = 0;
  pool.reserved = pool.peak_reserved = 4 * kGiB;
  pool.used = used_late;
  pool.threshold = threshold;
  pool.threshold_stack = setter;
  for (int i = 0; i < 50; ++i) {
    const uint64_t used = i < 20 ? 4 * kGiB : used_late;
    pool.points.push_back({2.0 * i, 4 * kGiB - used, used});
  }
  heap.pools.push_back(pool);
  return heap;
}

TEST(pools, a_raised_threshold_that_keeps_what_nothing_uses_is_waste_at_its_line) {
  const Heap heap = pool_heap(~0ull, kGiB);
  const Finding waste = finding(heap, "pool-threshold");
  EXPECT_EQ(said(heap), "pool-threshold/waste");
  EXPECT_EQ(waste.bytes, 3 * kGiB);
  EXPECT_NE(waste.evidence[1].find("without limit at pool.cpp:4"), std::string::npos) << waste.evidence[1];
  EXPECT_EQ(ledger(heap)[0].pooled_bytes, 3 * kGiB);
  EXPECT_EQ(reserved_in_pools(heap, 0, -1), 0u);
  EXPECT_EQ(reserved_in_pools(heap, 0, 10), 4 * kGiB);
}

TEST(pools, a_pool_that_is_used_or_gives_back_is_nothing_to_tell) {
  EXPECT_EQ(said(pool_heap(~0ull, 7 * kGiB / 2)), "");
  EXPECT_EQ(said(pool_heap(0, kGiB)), "") << "it gives back at the next synchronisation";
}

TEST(pools, a_destroyed_pool_holds_nothing) {
  Heap heap = pool_heap(~0ull, kGiB);
  heap.pools[0].destroyed = true;
  EXPECT_EQ(said(heap), "");
  EXPECT_EQ(idle_in_pools(heap, 0), 0u);
}

TEST(pools, memory_of_graphs_is_used_at_each_launch) {
  Heap heap = pool_heap(0, 0);
  heap.pools[0].handle = 0;
  EXPECT_EQ(said(heap), "");
  heap.pools[0].points.resize(20);
  for (PoolPoint& point : heap.pools[0].points) point.idle_min = 4 * kGiB;
  EXPECT_EQ(said(heap), "cached-unused/waste") << "no launch for more than half of the run";
}

// --- contexts --------------------------------------------------------------------------------------------------------------

Heap rank_with_contexts(int rank, uint64_t on_first) {
  Story program(Layer::kDriver, Memory::kDevice);
  const int own = program.space(Layer::kDriver, Memory::kDevice);
  program.keep(program.site(program.line("train.py", 40, "main"), own, Kind::kDevice), 8 * kGiB);
  Heap heap = program.end();
  heap.process.rank = rank;
  heap.spaces[1].device = 1;
  heap.spaces[0].peak_bytes = on_first;
  for (int device : {0, 1}) {
    Space space;
    space.device = device;
    heap.handles.spaces.push_back(space);
    Site context;
    context.id = 100 + static_cast<uint32_t>(device);
    context.kind = Kind::kContext;
    context.space = device;
    context.end_blocks = context.live_blocks = context.allocations = 1;
    context.stack = program.line("train.py", 7 + device, "load");
    heap.handles.sites.push_back(context);
  }
  heap.frames = program.heap().frames;
  return heap;
}

TEST(contexts, a_rank_on_anothers_device_is_waste_at_the_line_that_made_its_context) {
  const Heap heap = rank_with_contexts(1, 2 * kMiB);
  const Finding waste = finding(heap, "extra-context");
  EXPECT_EQ(waste.severity, Severity::kWaste);
  EXPECT_NE(waste.title.find("Rank 1 holds a context on cuda:0"), std::string::npos) << waste.title;
  EXPECT_NE(waste.title.find("train.py:7"), std::string::npos) << waste.title;
}

TEST(contexts, work_on_several_devices_and_programs_without_ranks_are_none) {
  EXPECT_EQ(finding(rank_with_contexts(1, 4 * kGiB), "extra-context").id, "");
  EXPECT_EQ(finding(rank_with_contexts(-1, 2 * kMiB), "extra-context").id, "");
}

// --- the host ----------------------------------------------------------------------------------------------------------------

Heap host_growth(uint64_t each) {
  Story program;
  program.pass(program.site(program.line("train.py", 3, "main")), kMiB);
  program.wait(60);
  Heap heap = program.end();
  for (uint64_t i = 0; i < 60; ++i) heap.process.resident.push_back({static_cast<double>(i), 500 * kMiB + i * each});
  return heap;
}

TEST(host, growth_of_the_host_alone_is_told_to_be_none_of_the_gpu) {
  EXPECT_EQ(said(host_growth(10 * kMiB)), "host-growth/info");
  EXPECT_EQ(said(host_growth(kMiB / 8)), "");
}

TEST(host, warm_up_and_recorded_growth_are_not_told) {
  Heap heap = host_growth(0);
  for (size_t i = 0; i < 60; ++i) heap.process.resident[i].bytes += std::min<size_t>(i, 10) * 50 * kMiB;
  EXPECT_EQ(said(heap), "");
  heap = host_growth(10 * kMiB);
  Space cpu;
  cpu.memory = Memory::kCpu, cpu.layer = Layer::kPytorch, cpu.live_bytes = 590 * kMiB;
  heap.spaces.push_back(cpu);
  EXPECT_EQ(said(heap), "");
}

}  // namespace
}  // namespace vramtrack

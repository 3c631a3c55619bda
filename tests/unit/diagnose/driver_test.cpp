// C++ programs: memory forgotten, pinned memory, what merely stays, refused frees and refused allocations.
#include <gtest/gtest.h>

#include "tests/unit/diagnose/expectations.h"
#include "tests/unit/diagnose/heap_builder.h"

namespace vramtrack {
namespace {

struct Program : Story {
  Program() : Story(Layer::kDriver, Memory::kDevice) {}
  SiteId malloc_at(int line, const std::string& function = "run", const Line& callers = {}) {
    return site(native_line("app.cpp", line, function, callers));
  }
};

// The programs here do something else meanwhile by allocating and freeing, which is a finding of its own (handles_test.cpp).
std::string said_besides_churn(const Heap& heap) { return said(heap, "allocation-churn"); }

TEST(driver, a_forgotten_member_is_found_beside_its_siblings) {
  Program program;
  for (int i = 0; i < 60; ++i) {
    const auto weights = program.alloc(program.malloc_at(7, "Layer"), kMiB);
    const auto output = program.alloc(program.malloc_at(8, "Layer"), 2 * kMiB);
    program.keep(program.malloc_at(9, "Layer"), 3 * kMiB);
    program.free(weights);
    program.free(output);
  }
  const Heap heap = program.end();
  EXPECT_EQ(said_besides_churn(heap), "forgotten-free/leak");
  const Finding leak = finding(heap, "forgotten-free");
  EXPECT_EQ(leak.bytes, 180 * kMiB);
  EXPECT_EQ(leak.confidence, Confidence::kHigh);
  EXPECT_NE(leak.title.find("app.cpp:9"), std::string::npos) << leak.title;
}

TEST(driver, a_path_without_its_free_is_found) {
  Program program;
  for (int i = 0; i < 200; ++i) {
    program.pass(program.malloc_at(5), 64 * kKiB);
    const auto scratch = program.alloc(program.malloc_at(6), 256 * kKiB);
    if (i % 2 == 1) program.free(scratch);
  }
  EXPECT_EQ(said_besides_churn(program.end()), "forgotten-free/leak");
}

TEST(driver, a_pointer_overwritten_on_resize_is_found) {
  Program program;
  Story::BlockId last = 0;
  for (int i = 0; i < 80; ++i) last = program.alloc(program.malloc_at(5, "ensure"), i % 2 == 0 ? 480000 : 400000);
  program.free(last);
  EXPECT_EQ(said_besides_churn(program.end()), "forgotten-free/leak");
}

TEST(driver, callers_of_one_helper_are_causes_of_their_own) {
  Program program;
  const auto helper_of = [&](int line, const char* caller) {
    return program.malloc_at(2, "scratch", program.native_line("app.cpp", line, caller));
  };
  for (int i = 0; i < 200; ++i) {
    program.pass(helper_of(5, "frame"), kMiB);
    const Story::BlockId early = program.alloc(helper_of(6, "frame"), kMiB);
    if (i % 3 != 0) program.free(early);
    program.keep(helper_of(9, "log"), kMiB / 4);
  }
  const std::vector<Finding> found = diagnose(program.end());
  ASSERT_GE(found.size(), 2u);
  EXPECT_NE(found[0].title.find("called at app.cpp:6 in frame()"), std::string::npos) << found[0].title;
  EXPECT_NE(found[0].evidence.back().find("ways through"), std::string::npos) << found[0].evidence.back();
  EXPECT_NE(found[1].title.find("called at app.cpp:9 in log()"), std::string::npos) << found[1].title;
  EXPECT_NE(found[1].evidence.back().find("this caller that forgets"), std::string::npos) << found[1].evidence.back();
}

TEST(driver, a_line_that_leaks_and_frees_has_no_other_caller) {
  Program program;
  const auto frees = program.malloc_at(7), leaks = program.site(program.native_line("app.cpp", 7, "run", program.native_line("libc.c", 1, "")));
  for (int i = 0; i < 400; ++i) {
    program.pass(frees, kMiB);
    if (i % 4 == 3) program.keep(leaks, kMiB);
  }
  EXPECT_EQ(said_besides_churn(program.end()), "forgotten-free/leak");
}

TEST(driver, outgrown_buffers_are_a_leak_though_they_come_to_rest) {
  Program program;
  Story::BlockId last = 0;
  for (uint64_t size = 1; size <= 60; ++size) last = program.alloc(program.malloc_at(5, "resize"), size * 256 * kKiB);
  for (int i = 0; i < 60; ++i) program.pass(program.malloc_at(9), kKiB);
  program.free(last);
  EXPECT_EQ(said_besides_churn(program.end()), "forgotten-free/leak");
}

TEST(driver, levels_made_in_advance_each_larger_than_the_last_are_no_leak) {
  Program program;
  for (uint64_t level = 1; level <= 16; ++level) program.keep(program.malloc_at(5, "build"), level * level * kMiB);
  for (int i = 0; i < 500; ++i) program.pass(program.malloc_at(9), kKiB);
  EXPECT_EQ(said_besides_churn(program.end()), "never-freed/info");
}

TEST(driver, only_the_last_of_outgrown_buffers_being_freed_tells_a_leak) {
  Program program;
  Story::BlockId last = 0;
  for (uint64_t size = 1; size <= 21; ++size) last = program.alloc(program.malloc_at(5, "grow"), size * kMiB);
  program.free(last);
  EXPECT_EQ(said_besides_churn(program.end()), "forgotten-free/leak");
}

TEST(driver, small_blocks_of_a_long_loop_are_a_leak) {
  Program program;
  for (int i = 0; i < 5000; ++i) {
    program.keep(program.malloc_at(5), kKiB);
    program.pass(program.malloc_at(6), kKiB);
  }
  EXPECT_EQ(said_besides_churn(program.end()), "forgotten-free/leak");
}

TEST(driver, layers_loaded_used_and_freed_are_nothing) {
  Program program;
  std::vector<Story::BlockId> made;
  for (int layer = 0; layer < 64; ++layer) {
    made.push_back(program.alloc(program.malloc_at(4), kMiB));
    made.push_back(program.alloc(program.site(program.native_line("app.cpp", 5, "run"), 0, Kind::kPinned), kMiB));
    made.push_back(program.alloc(program.malloc_at(6), kMiB));
    program.wait(0.008);
  }
  program.wait(1);
  for (auto block : made) program.free(block);
  EXPECT_EQ(said(program.end()), "");
}

TEST(driver, what_each_new_thread_leaves_is_its_own_finding) {
  Program program;
  for (uint32_t thread = 1; thread <= 60; ++thread) {
    program.on_thread(thread);
    program.keep(program.malloc_at(5), 256 * kKiB);
    program.pass(program.malloc_at(6), kKiB);
  }
  EXPECT_EQ(said_besides_churn(program.end()), "per-thread-growth/leak");
}

TEST(driver, a_leak_of_a_few_workers_is_a_forgotten_free) {
  Program program;
  for (uint32_t i = 0; i < 200; ++i) {
    program.on_thread(i % 8);
    program.keep(program.malloc_at(5), 256 * kKiB);
    program.pass(program.malloc_at(6), kKiB);
  }
  EXPECT_EQ(said_besides_churn(program.end()), "forgotten-free/leak");
}

TEST(driver, memory_of_graphs_is_its_own_finding) {
  Program program;
  const auto site = program.site(program.native_line("app.cpp", 5, "run"), 0, Kind::kGraphMemory);
  for (int i = 0; i < 60; ++i) {
    program.keep(site, kMiB);
    program.pass(program.malloc_at(6), kKiB);
  }
  EXPECT_EQ(said_besides_churn(program.end()), "graph-memory/leak");
}

TEST(driver, a_leak_scattered_over_many_functions_is_found) {
  Program program;
  for (int i = 0; i < 60; ++i) {
    for (int function = 0; function < 300; ++function) {
      program.keep(program.malloc_at(function, "layer" + std::to_string(function)), kKiB);
      program.pass(program.malloc_at(1000), kKiB);
    }
  }
  const Heap heap = program.end();
  EXPECT_EQ(said_besides_churn(heap), "forgotten-free/leak");
  EXPECT_EQ(finding(heap, "forgotten-free").bytes, 60 * 300 * kKiB);
}

TEST(driver, what_the_end_frees_is_not_called_forgotten_with_the_rest) {
  Program program;
  std::vector<Story::BlockId> freed;
  for (int i = 0; i < 400; ++i) {
    program.keep(program.malloc_at(5, "Pool"), kMiB);
    freed.push_back(program.alloc(program.malloc_at(6, "Pool"), kMiB));
    program.pass(program.malloc_at(7), kKiB);
  }
  for (auto block : freed) program.free(block);
  const Heap heap = program.end();
  EXPECT_EQ(finding(heap, "forgotten-free").blocks, 400u);
}

TEST(driver, the_last_of_dropped_buffers_that_is_freed_is_not_counted) {
  Program program;
  Story::BlockId last = 0;
  for (uint64_t size = 1; size <= 16; ++size) {
    last = program.alloc(program.malloc_at(5, "resize"), size * size * kMiB);
    program.pass(program.malloc_at(7), kMiB);
  }
  program.free(last);
  EXPECT_EQ(finding(program.end(), "forgotten-free").blocks, 15u);
}

// A cache grows through the run and is freed in the end.
Program caching() {
  Program program;
  std::vector<Story::BlockId> cache;
  for (int i = 0; i < 200; ++i) {
    cache.push_back(program.alloc(program.malloc_at(5), 64 * kKiB));
    program.pass(program.malloc_at(6), 64 * kKiB);
  }
  for (const Story::BlockId block : cache) program.free(block);
  return program;
}

TEST(driver, a_cache_freed_at_the_end_still_grew) {
  Program program = caching();
  EXPECT_EQ(said_besides_churn(program.end()), "forgotten-free/leak");
}

TEST(driver, what_a_running_program_has_given_back_is_no_leak) {
  Program program = caching();
  program.heap().process.ended = "running";
  EXPECT_EQ(said_besides_churn(program.end()), "");
}

TEST(driver, buffers_made_once_and_used_are_only_never_freed) {
  Program program;
  for (int layer = 0; layer < 8; ++layer) program.keep(program.malloc_at(5, "load"), kMiB);
  EXPECT_EQ(said_besides_churn(program.end()), "never-freed/info");
  Program ring;
  for (int slot = 0; slot < 100; ++slot) ring.keep(ring.malloc_at(5, "make_ring"), kMiB);
  for (int i = 0; i < 100; ++i) ring.pass(ring.malloc_at(9), kMiB);
  EXPECT_EQ(said_besides_churn(ring.end()), "never-freed/info");
}

TEST(driver, buffers_used_for_long_after_are_only_never_freed) {
  Program program;
  for (int slot = 0; slot < 100; ++slot) program.keep(program.malloc_at(5, "make_ring"), kMiB);
  program.wait(3);
  EXPECT_EQ(said_besides_churn(program.end()), "never-freed/info");
}

TEST(driver, a_pool_built_and_freed_is_nothing) {
  Program program;
  std::vector<Story::BlockId> pool;
  for (int slot = 0; slot < 100; ++slot) pool.push_back(program.alloc(program.malloc_at(5), kMiB));
  for (const Story::BlockId block : pool) program.free(block);
  EXPECT_EQ(said_besides_churn(program.end()), "");
}

TEST(driver, a_pair_in_the_loop_is_no_leak) {
  Program program;
  for (int i = 0; i < 3000; ++i) program.pass(program.malloc_at(5), kMiB);
  EXPECT_EQ(said_besides_churn(program.end()), "");
}

TEST(driver, a_killed_program_has_nothing_never_freed) {
  Program program;
  program.keep(program.malloc_at(5), kMiB);
  program.heap().process.ended = "signal:9";
  EXPECT_EQ(said_besides_churn(program.end()), "");
}

TEST(driver, pinned_memory_that_piles_up_is_its_own_finding) {
  Program program;
  const int pinned = program.space(Layer::kDriver, Memory::kPinnedHost);
  const auto staging = program.site(program.native_line("app.cpp", 4, "stage"), pinned, Kind::kPinned);
  program.pass(program.malloc_at(9), kMiB);
  for (int i = 0; i < 100; ++i) program.keep(staging, kMiB);
  EXPECT_EQ(said_besides_churn(program.end()), "pinned-growth/leak");
}

TEST(driver, segments_of_a_caching_allocator_are_not_blamed) {
  Story story;
  const int driver = story.space(Layer::kDriver, Memory::kDevice);
  const Stack segment = story.on_top_of(story.line("train.py", 5), story.native(1, "c10::cuda::CUDACachingAllocator::malloc"));
  for (int i = 0; i < 100; ++i) {
    story.keep(story.site(segment, driver), 20 * kMiB);
    story.pass(story.in_forward(story.line("train.py", 5), "relu"), kMiB);
  }
  EXPECT_FALSE(says_leak(story.end())) << said_besides_churn(story.end());
}

Incident refused_free(Story& story, FreeFault fault) {
  Incident incident;
  incident.kind = IncidentKind::kInvalidFree;
  incident.fault = fault;
  incident.stack = story.native_line("app.cpp", 12, "main");
  incident.api = "cudaFree";
  incident.space = 0;
  incident.count = 1;
  incident.address = 0x7000;
  return incident;
}

TEST(driver, each_refused_free_is_a_finding) {
  Program program;
  program.pass(program.malloc_at(5), kMiB);
  program.heap().incidents = {refused_free(program, FreeFault::kDoubleFree), refused_free(program, FreeFault::kWrongFamily)};
  const Heap heap = program.end();
  EXPECT_EQ(said_besides_churn(heap), "invalid-free/leak invalid-free/leak");
  EXPECT_NE(finding(heap, "invalid-free").title.find("app.cpp:12 in main()"), std::string::npos);
}

TEST(driver, frees_after_the_work_are_forgiven) {
  Program program;
  program.pass(program.malloc_at(5), kMiB);
  Incident late = refused_free(program, FreeFault::kUnknownPointer);
  late.serial = 20;
  program.heap().incidents = {late};
  program.heap().process.work_ended = true;
  program.heap().process.work_ended_serial = 10;
  EXPECT_EQ(said_besides_churn(program.end()), "");
}

TEST(driver, out_of_memory_names_the_finding_that_filled_the_device) {
  Program program;
  for (int i = 0; i < 100; ++i) {
    program.keep(program.malloc_at(5), kMiB);
    program.pass(program.malloc_at(6), kMiB);
  }
  Incident incident;
  incident.kind = IncidentKind::kOutOfMemory;
  incident.stack = program.native_line("app.cpp", 5, "run");
  incident.space = 0;
  incident.count = 1;
  incident.size = kMiB;
  incident.live_bytes = 100 * kMiB;
  incident.top = {{1, 100 * kMiB}};
  program.heap().incidents = {incident};
  const Heap heap = program.end();
  EXPECT_EQ(said_besides_churn(heap), "forgotten-free/leak out-of-memory/info");
  EXPECT_NE(finding(heap, "out-of-memory").evidence.back().find("forgotten-free"), std::string::npos);
}

TEST(driver, a_refusal_that_the_caching_allocator_overcame_is_not_reported) {
  Story story;
  const int driver = story.space(Layer::kDriver, Memory::kDevice);
  story.keep(story.in_forward(story.line("train.py", 5), "relu"), kMiB);
  Incident incident;
  incident.kind = IncidentKind::kOutOfMemory;
  incident.stack = story.on_top_of(story.line("train.py", 5), story.native(1, "c10::cuda::CUDACachingAllocator::malloc"));
  incident.space = driver;
  incident.count = 1;
  story.heap().incidents = {incident};
  EXPECT_EQ(said_besides_churn(story.end()), "");
}

// Each of thirty buffers is replaced when a larger one is wanted: every allocation is larger than the one it follows, and no
// more than thirty ever live.
TEST(driver, buffers_that_are_replaced_by_larger_ones_are_a_pool) {
  Program program;
  const auto site = program.malloc_at(12, "ensure");
  std::vector<std::pair<Story::BlockId, uint64_t>> buffers;
  for (int i = 0; i < 30; ++i) buffers.push_back({program.alloc(site, 64 * kKiB), 64 * kKiB});
  for (int i = 0; i < 256; ++i) {
    auto& [block, size] = buffers[static_cast<size_t>(i * 7 % 30)];
    program.free(block);
    size += 32 * kKiB;
    block = program.alloc(site, size);
  }
  EXPECT_FALSE(says_leak(program.end()));
}

}  // namespace
}  // namespace vramtrack

// Streams, events and other handles that are never destroyed, and those that only look so; memory taken and given back in a loop.
#include <gtest/gtest.h>

#include "tests/unit/diagnose/expectations.h"
#include "tests/unit/diagnose/heap_builder.h"

namespace vramtrack {
namespace {

struct Program : Story {
  Program() : Story(Layer::kDriver, Memory::kDevice), handles_(space(Layer::kDriver, Memory::kDevice)) {}

  SiteId malloc_at(int line) { return site(native_line("app.cpp", line, "run")); }
  SiteId made_at(int line, Kind kind, const std::string& function = "run") {
    return site(native_line("app.cpp", line, function), handles_, kind);
  }

  // As the reader leaves it: handles apart from memory.
  Heap end() {
    Heap heap = Story::end();
    heap.handles.spaces = {heap.spaces[static_cast<size_t>(handles_)]};
    heap.spaces.pop_back();
    for (Site& site : heap.sites) {
      if (!is_handle(site.kind)) continue;
      site.space = 0;
      heap.handles.sites.push_back(site);
    }
    std::erase_if(heap.sites, [](const Site& site) { return is_handle(site.kind); });
    return heap;
  }

 private:
  int handles_;
};

TEST(handles, a_stream_for_each_request_is_a_leak) {
  Program program;
  for (int i = 0; i < 300; ++i) {
    program.keep(program.made_at(5, Kind::kStream), 1);
    program.pass(program.made_at(6, Kind::kEvent), 1);
    program.pass(program.malloc_at(7), 4 * kKiB);
  }
  const Heap heap = program.end();
  const Finding leak = finding(heap, "handle-leak");
  EXPECT_EQ(leak.blocks, 300u);
  EXPECT_EQ(leak.bytes, 0u) << "how much a stream takes is not known";
  EXPECT_EQ(leak.kind, Kind::kStream);
  EXPECT_EQ(leak.confidence, Confidence::kHigh);
  EXPECT_NE(leak.title.find("300 streams made at app.cpp:5"), std::string::npos) << leak.title;
  ASSERT_EQ(leak.evidence.size(), 3u);
  EXPECT_NE(leak.evidence[1].find("events of the same function are destroyed"), std::string::npos) << leak.evidence[1];
}

TEST(handles, each_kind_is_a_finding_of_its_own) {
  Program program;
  for (int i = 0; i < 100; ++i) {
    program.keep(program.made_at(5, Kind::kGraph), 1);
    program.keep(program.made_at(6, Kind::kGraphExec), 1);
    program.pass(program.malloc_at(7), kKiB);
  }
  EXPECT_EQ(said(program.end()), "handle-leak/leak handle-leak/leak allocation-churn/waste");
}

TEST(handles, streams_made_at_the_start_are_no_leak) {
  Program program;
  for (int i = 0; i < 128; ++i) program.keep(program.made_at(5, Kind::kStream), 1);
  for (int i = 0; i < 50; ++i) program.pass(program.malloc_at(7), kMiB);
  EXPECT_EQ(said(program.end()), "");
}

TEST(handles, everything_of_a_layer_made_while_loading_is_no_leak) {
  Program program;
  for (int layer = 0; layer < 64; ++layer) {
    program.keep(program.malloc_at(4), kMiB);
    program.keep(program.site(program.native_line("app.cpp", 5, "run"), 0, Kind::kPinned), kMiB);
    program.keep(program.made_at(6, Kind::kEvent), 1);
    program.keep(program.made_at(7, Kind::kStream), 1);
    program.wait(0.008);
  }
  program.wait(1);
  EXPECT_FALSE(says_leak(program.end()));
}

TEST(handles, one_by_one_through_the_whole_run_they_are_a_leak) {
  Program program;
  for (int i = 0; i < 900; ++i) {
    program.keep(program.made_at(5, Kind::kEvent), 1);
    program.wait(0.002);
  }
  EXPECT_EQ(said(program.end()), "handle-leak/leak");
}

TEST(handles, thousands_that_nothing_else_follows_are_a_leak) {
  Program program;
  for (int i = 0; i < 1500; ++i) program.keep(program.made_at(5, Kind::kEvent), 1);
  EXPECT_EQ(said(program.end()), "handle-leak/leak");
}

TEST(handles, more_streams_than_a_device_can_run_are_a_leak) {
  Program program;
  for (int i = 0; i < 500; ++i) program.keep(program.made_at(5, Kind::kStream), 1);
  EXPECT_EQ(said(program.end()), "handle-leak/leak");
}

TEST(handles, what_is_destroyed_each_time_is_nothing) {
  Program program;
  for (int i = 0; i < 500; ++i) program.pass(program.made_at(5, Kind::kStream), 1);
  EXPECT_EQ(said(program.end()), "");
}

TEST(handles, a_pool_of_them_that_fills_and_rests_is_no_leak) {
  Program program;
  for (int i = 0; i < 400; ++i) {
    if (i < 40) program.keep(program.made_at(5, Kind::kStream), 1);
    program.pass(program.made_at(6, Kind::kEvent), 1);
    program.pass(program.malloc_at(7), kKiB);
  }
  EXPECT_FALSE(says_leak(program.end()));
}

TEST(churn, a_pair_in_the_loop_is_a_waste) {
  Program program;
  for (int i = 0; i < 3000; ++i) program.pass(program.malloc_at(5), kMiB);
  const Heap heap = program.end();
  EXPECT_EQ(said(heap), "allocation-churn/waste");
  EXPECT_EQ(finding(heap, "allocation-churn").bytes, 0u) << "nothing is won back but time";
}

TEST(churn, a_few_pairs_are_none) {
  Program program;
  for (int i = 0; i < 60; ++i) program.pass(program.malloc_at(5), kMiB);
  EXPECT_EQ(said(program.end()), "");
}

TEST(churn, a_set_that_is_filled_and_emptied_is_none) {
  Program program;
  for (int round = 0; round < 20; ++round) {
    std::vector<Story::BlockId> set;
    for (int i = 0; i < 50; ++i) set.push_back(program.alloc(program.malloc_at(5), kMiB));
    for (auto block : set) program.free(block);
  }
  EXPECT_EQ(said(program.end()), "");
}

TEST(churn, stream_ordered_memory_has_its_pool) {
  Program program;
  const auto site = program.site(program.native_line("app.cpp", 5, "run"), 0, Kind::kStreamOrdered);
  for (int i = 0; i < 3000; ++i) program.pass(site, kMiB);
  EXPECT_EQ(said(program.end()), "");
}

}  // namespace
}  // namespace vramtrack

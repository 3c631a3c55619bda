// Does the recorder keep the live table, the composition at the peak and the floors exactly? Checked against brute force.

#include "interpose/recorder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "interpose/history.h"
#include "tests/unit/scratch_capture.h"

namespace vramtrack {
namespace {

using namespace format;

constexpr SpaceKey kGpu = {Layer::kDriver, Memory::kDevice, 0};
constexpr SpaceKey kTorch = {Layer::kPytorch, Memory::kDevice, 0};
constexpr uint32_t kAnyDeviceKind = 1u << static_cast<uint32_t>(Kind::kDevice);

void allocate(ScratchCapture& capture, uint32_t stack, uint64_t address, uint64_t size, SpaceKey space = kGpu, uint64_t owner = 0,
              Kind kind = Kind::kDevice) {
  record_allocation(capture.recorder(), {space, kind, address, size, owner, nullptr, stack, 1});
}

std::map<uint64_t, uint64_t> live_blocks(ScratchCapture& capture) {
  std::map<uint64_t, uint64_t> live;
  for (uint32_t i = 1; i < capture.count(kBlocks); i++) {
    const Block& block = capture.at<Block>(kBlocks, i);
    if (block.serial && !(block.serial & kFreed)) live[block.address] = block.size;
  }
  return live;
}

uint64_t bytes_at_peak(const Site& site, const Space& space) {
  return site.peak_number == space.peak_number ? site.saved_peak_bytes : site.live_bytes;
}

TEST(Recorder, live_table_equals_an_oracle_after_a_random_storm) {
  ScratchCapture capture;
  std::mt19937 random(7);
  std::map<uint64_t, uint64_t> oracle;
  for (int i = 0; i < 200000; i++) {
    const uint64_t address = 4096 * (1 + random() % 5000);
    if (oracle.count(address)) {
      record_free(capture.recorder(), kGpu, address);
      oracle.erase(address);
    } else {
      const uint64_t size = 1 + random() % 100000;
      allocate(capture, 1 + random() % 50, address, size);
      oracle[address] = size;
    }
  }
  EXPECT_EQ(live_blocks(capture), oracle);
  EXPECT_LE(capture.count(kBlocks), 5000u + 64 + 1);
  uint64_t bytes = 0;
  for (const auto& [address, size] : oracle) bytes += size;
  EXPECT_EQ(capture.at<Space>(kSpaces, 1).live_bytes, bytes);
  EXPECT_EQ(capture.at<Space>(kSpaces, 1).live_blocks, oracle.size());
}

TEST(Recorder, composition_at_the_peak_equals_a_replay) {
  ScratchCapture capture;
  std::mt19937 random(11);
  struct Live { uint32_t stack; uint64_t size; };
  std::map<uint64_t, Live> live;
  std::map<uint32_t, uint64_t> by_stack, at_peak;
  uint64_t total = 0, peak = 0;
  for (int i = 0; i < 50000; i++) {
    const uint64_t address = 256 * (1 + random() % 800);
    if (auto it = live.find(address); it != live.end()) {
      record_free(capture.recorder(), kGpu, address);
      total -= it->second.size;
      by_stack[it->second.stack] -= it->second.size;
      live.erase(it);
      continue;
    }
    const uint32_t stack = 1 + random() % 40;
    const uint64_t size = 1 + random() % 1000;
    allocate(capture, stack, address, size);
    live[address] = {stack, size};
    by_stack[stack] += size;
    total += size;
    if (total > peak) {
      peak = total;
      at_peak = by_stack;
    }
  }
  const Space& space = capture.at<Space>(kSpaces, 1);
  EXPECT_EQ(space.peak_bytes, peak);
  for (uint32_t i = 1; i < capture.count(kSites); i++) {
    const Site& site = capture.at<Site>(kSites, i);
    EXPECT_EQ(bytes_at_peak(site, space), at_peak[site.stack]) << "stack " << site.stack;
  }
}

TEST(Recorder, floors_of_a_steady_leak_rise_and_of_a_balanced_loop_stay) {
  ScratchCapture capture;
  for (uint64_t i = 1; i <= 1000; i++) {
    allocate(capture, 1, i * 4096, 100);  // kept
    allocate(capture, 2, 1, 5000);        // freed at once
    record_free(capture.recorder(), kGpu, 1);
  }
  const Curve& leak = capture.at<Curve>(kCurves, capture.at<Site>(kSites, 1).curve);
  const Curve& steady = capture.at<Curve>(kCurves, capture.at<Site>(kSites, 2).curve);
  ASSERT_GT(leak.last_window, 30u);
  for (uint32_t i = 2; i <= leak.last_window; i++) EXPECT_GT(leak.floor[i], leak.floor[i - 1]);
  for (uint32_t i = 1; i <= steady.last_window; i++) EXPECT_EQ(steady.floor[i], 0);
}

TEST(Recorder, windows_are_steps_once_steps_are_known) {
  ScratchCapture capture;
  allocate(capture, 1, 1, 10);
  for (int step = 0; step < 40; step++) {
    record_step(capture.recorder(), StepSource::kOptimizer);
    allocate(capture, 1, 100 + step, 10);
    allocate(capture, 2, 2, 7);
    record_free(capture.recorder(), kGpu, 2);
  }
  const Curve& curve = capture.at<Curve>(kCurves, capture.at<Site>(kSites, 1).curve);
  EXPECT_EQ(curve.by_iteration, 1u);
  EXPECT_EQ(curve.last_window, 39u);
  EXPECT_EQ(curve.floor[39], 400);  // the least of the last step: before its own allocation
}

TEST(Recorder, backward_passes_are_windows_until_steps_are_known) {
  ScratchCapture capture;
  const Space& space = capture.at<Space>(kSpaces, 1);
  allocate(capture, 1, 1, 10);
  EXPECT_EQ(space.clock, Clock::kAllocations);
  for (int pass = 0; pass < 20; pass++) {
    capture.header().backward_passes++;
    for (int i = 0; i <= pass; i++) allocate(capture, 1, 100 + pass * 100 + i, 10);  // ever more in each
  }
  EXPECT_EQ(space.clock, Clock::kBackward);
  EXPECT_EQ(space.windows, 19u);
  record_step(capture.recorder(), StepSource::kOptimizer);
  allocate(capture, 1, 10000, 10);
  record_step(capture.recorder(), StepSource::kOptimizer);
  allocate(capture, 1, 10001, 10);
  EXPECT_EQ(space.clock, Clock::kStep);
  EXPECT_EQ(space.windows, 20u);
}

TEST(Recorder, a_thread_that_knows_fewer_steps_does_not_turn_the_clock) {
  Space space = {};
  advance_clock(space, Clock::kStep, 1);
  for (uint32_t step = 2; step <= 40; step++) {
    advance_clock(space, Clock::kStep, step);
    advance_clock(space, Clock::kStep, step - 1);  // looked before the other, got the lock after it
  }
  EXPECT_EQ(space.windows, 39u);
  EXPECT_EQ(space.iterations_seen, 40u);
}

TEST(Recorder, a_long_first_iteration_is_one_window) {
  ScratchCapture capture;
  const Space& space = capture.at<Space>(kSpaces, 1);
  allocate(capture, 1, 1, 10);
  for (uint64_t step = 0; step < 3; step++) {
    record_step(capture.recorder(), StepSource::kOptimizer);
    for (uint64_t i = 0; i < 2000; i++) allocate(capture, 2, 100 + step * 2000 + i, 7);
  }
  EXPECT_EQ(space.windows, 2u);
}

TEST(Recorder, a_loop_after_the_last_step_is_still_seen_over_time) {
  ScratchCapture capture;
  allocate(capture, 1, 1, 10);
  for (int step = 0; step < 10; step++) {
    record_step(capture.recorder(), StepSource::kOptimizer);
    for (int i = 0; i < 20; i++) {
      allocate(capture, 2, 2, 7);
      record_free(capture.recorder(), kGpu, 2);
    }
  }
  for (int i = 0; i < 10000; i++) {
    allocate(capture, 3, 1000 + i, 1);
    allocate(capture, 2, 2, 7);
    record_free(capture.recorder(), kGpu, 2);
  }
  const Curve& leak = capture.at<Curve>(kCurves, capture.at<Site>(kSites, 3).curve);
  ASSERT_GT(leak.last_window, 30u);
  for (uint32_t i = 2; i <= leak.last_window; i++) EXPECT_GE(leak.floor[i], leak.floor[i - 1]);
  EXPECT_GT(leak.floor[leak.last_window], leak.floor[leak.last_window / 2] * 1.5);
}

TEST(Recorder, a_free_the_driver_refuses_leaves_no_trace) {
  ScratchCapture capture;
  allocate(capture, 1, 64, 1000);
  allocate(capture, 1, 128, 1000);
  const Site site = capture.at<Site>(kSites, 1);
  const Curve curve = capture.at<Curve>(kCurves, site.curve);
  const TakenBlock taken = take_block(capture.recorder(), 64, kAnyDeviceKind);
  ASSERT_NE(taken.block, 0u);
  EXPECT_EQ(take_block(capture.recorder(), 64, kAnyDeviceKind).block, 0u) << "its address is free for others";
  put_back(capture.recorder(), taken);
  EXPECT_EQ(live_blocks(capture), (std::map<uint64_t, uint64_t>{{64, 1000}, {128, 1000}}));
  EXPECT_EQ(memcmp(&site, &capture.at<Site>(kSites, 1), sizeof site), 0);
  EXPECT_EQ(memcmp(&curve, &capture.at<Curve>(kCurves, site.curve), sizeof curve), 0);
  EXPECT_EQ(take_block(capture.recorder(), 64, kAnyDeviceKind).block, taken.block) << "and known again";
}

TEST(Recorder, an_address_may_be_allocated_again_before_its_free_has_returned) {
  ScratchCapture capture;
  allocate(capture, 1, 64, 1000);
  const TakenBlock taken = take_block(capture.recorder(), 64, kAnyDeviceKind);
  allocate(capture, 2, 64, 50);
  give_up(capture.recorder(), taken, 0);
  EXPECT_EQ(live_blocks(capture), (std::map<uint64_t, uint64_t>{{64, 50}}));
  EXPECT_EQ(capture.at<Space>(kSpaces, 1).live_bytes, 50u);
  give_up(capture.recorder(), take_block(capture.recorder(), 64, kAnyDeviceKind), 0);
  EXPECT_TRUE(live_blocks(capture).empty());
}

TEST(Recorder, a_context_may_go_while_a_free_of_its_block_is_on_its_way) {
  ScratchCapture capture;
  allocate(capture, 1, 64, 1000, kGpu, 0xc1);
  const TakenBlock taken = take_block(capture.recorder(), 64, kAnyDeviceKind);
  EXPECT_EQ(drop_context(capture.recorder(), 0, 0xc1).bytes, 1000u);
  put_back(capture.recorder(), taken);
  give_up(capture.recorder(), taken, 0);
  EXPECT_TRUE(live_blocks(capture).empty());
  EXPECT_EQ(capture.at<Space>(kSpaces, 1).frees, 1u);
  EXPECT_EQ(capture.at<Space>(kSpaces, 1).live_bytes, 0u);
}

TEST(Recorder, a_buffer_that_is_outgrown_is_larger_each_time) {
  ScratchCapture capture;
  for (uint64_t i = 1; i <= 10; i++) allocate(capture, 1, i * 4096, i * 100);
  allocate(capture, 1, 1 << 20, 50);
  const Site& site = capture.at<Site>(kSites, 1);
  EXPECT_EQ(site.new_max_sizes, 10u);
  EXPECT_EQ(site.size_changes, 10u);
  EXPECT_EQ(site.size_min, 50u);
}

TEST(Recorder, a_pinned_pointer_given_to_cudaFree_stays_live) {
  ScratchCapture capture;
  allocate(capture, 1, 64, 1000, {Layer::kDriver, Memory::kPinnedHost, -1}, 0, Kind::kPinned);
  EXPECT_EQ(take_block(capture.recorder(), 64, kAnyDeviceKind).block, 0u);
  const AddressHistory history = history_of(capture.recorder(), 64);
  EXPECT_TRUE(history.live);
  EXPECT_EQ(history.size, 1000u);
  EXPECT_EQ(history.space.memory, Memory::kPinnedHost);
}

TEST(Recorder, a_second_free_is_known_as_such) {
  ScratchCapture capture;
  allocate(capture, 9, 64, 1000);
  give_up(capture.recorder(), take_block(capture.recorder(), 64, kAnyDeviceKind), 0);
  const AddressHistory history = history_of(capture.recorder(), 64);
  EXPECT_FALSE(history.live);
  EXPECT_EQ(history.site, 1u);
  EXPECT_EQ(history.size, 1000u);
  EXPECT_EQ(history_of(capture.recorder(), 65).site, 0u);
}

TEST(Recorder, a_context_takes_its_memory_but_not_the_pools) {
  ScratchCapture capture;
  allocate(capture, 1, 64, 10, kGpu, 0xc1);
  allocate(capture, 1, 128, 20, kGpu, 0xc2);
  allocate(capture, 2, 256, 40, kGpu, 0xc1, Kind::kStreamOrdered);
  EXPECT_EQ(drop_context(capture.recorder(), 0, 0xc1).bytes, 10u);
  EXPECT_EQ(live_blocks(capture), (std::map<uint64_t, uint64_t>{{128, 20}, {256, 40}}));
  EXPECT_EQ(drop_context(capture.recorder(), 0, 0).bytes, 20u);
  EXPECT_EQ(live_blocks(capture), (std::map<uint64_t, uint64_t>{{256, 40}}));
}

constexpr SpaceKey kHandlesOfGpu = {Layer::kHandles, Memory::kDevice, 0};

TEST(Recorder, handles_of_different_kinds_may_have_one_value) {
  ScratchCapture capture;
  allocate(capture, 1, 1, 1, kHandlesOfGpu, 0xc1, Kind::kTexture);
  allocate(capture, 2, 1, 1, kHandlesOfGpu, 0xc1, Kind::kSurface);
  allocate(capture, 3, 1, 1, kGpu, 0xc1);
  EXPECT_EQ(take_handle(capture.recorder(), 1, Kind::kStream).block, 0u);
  give_up(capture.recorder(), take_handle(capture.recorder(), 1, Kind::kTexture), 0);
  EXPECT_EQ(capture.at<Site>(kSites, 1).live_blocks, 0u);
  EXPECT_EQ(capture.at<Site>(kSites, 2).live_blocks, 1u);
  EXPECT_EQ(capture.at<Site>(kSites, 3).live_blocks, 1u);
}

TEST(Recorder, a_context_takes_its_streams_but_not_graphs) {
  ScratchCapture capture;
  allocate(capture, 1, 64, 1, kHandlesOfGpu, 0xc1, Kind::kStream);
  allocate(capture, 2, 128, 1, kHandlesOfGpu, 0xc1, Kind::kGraph);
  EXPECT_EQ(drop_context(capture.recorder(), 0, 0xc1).bytes, 0u) << "handles are no bytes";
  EXPECT_EQ(capture.at<Site>(kSites, 1).live_blocks, 0u);
  EXPECT_EQ(capture.at<Site>(kSites, 2).live_blocks, 1u);
}

TEST(Recorder, time_in_the_driver_is_summed_by_site) {
  ScratchCapture capture;
  Allocation allocation = {kGpu, Kind::kDevice, 64, 1000, 0, "cudaMalloc", 1, 0, 500};
  record_allocation(capture.recorder(), allocation);
  give_up(capture.recorder(), take_block(capture.recorder(), 64, kAnyDeviceKind), 250);
  EXPECT_EQ(capture.at<Site>(kSites, 1).driver_ns, 750u);
}

// Survivors of the work that are gone, by address.
std::map<uint64_t, uint64_t> freed_survivors(ScratchCapture& capture) {
  std::map<uint64_t, uint64_t> freed;
  for (uint32_t i = 1; i < capture.count(kBlocks); i++) {
    const Block& block = capture.at<Block>(kBlocks, i);
    const uint64_t end = capture.header().end_number;
    if (block.serial & kFreed && (block.end_number == end || block.end_number == (end | kAfterWork))) freed[block.address] = block.size;
  }
  return freed;
}

TEST(Recorder, what_teardown_frees_is_kept_as_a_survivor) {
  ScratchCapture capture;
  allocate(capture, 1, 64, 10);
  allocate(capture, 1, 128, 10);
  allocate(capture, 1, 192, 10);
  record_free(capture.recorder(), kGpu, 192);
  record_work_ended(capture.recorder(), WorkEnd::kProcessExits);
  record_free(capture.recorder(), kGpu, 64);
  allocate(capture, 1, 256, 10);  // by the teardown itself: takes no survivor's record
  record_free(capture.recorder(), kGpu, 256);
  const Site& site = capture.at<Site>(kSites, 1);
  EXPECT_EQ(site.live_bytes, 10u);
  EXPECT_EQ(site.end_number, kAfterWork);
  EXPECT_EQ(site.end_bytes, 20u);
  EXPECT_EQ(freed_survivors(capture)[64], 10u);
  EXPECT_EQ(freed_survivors(capture).count(192), 0u);
}

TEST(Recorder, tensors_that_went_just_before_the_end_are_survivors_of_the_work) {
  ScratchCapture capture;
  for (uint64_t i = 1; i <= 10; i++) allocate(capture, 1, i * 64, 10, kTorch);
  record_free(capture.recorder(), kTorch, 64);  // while it works: the next allocation takes its record
  allocate(capture, 2, 4096, 10, kTorch);
  for (uint64_t i = 2; i <= 10; i++) record_free(capture.recorder(), kTorch, i * 64);  // main() returns
  record_work_ended(capture.recorder(), WorkEnd::kPythonProcessExits);
  record_free(capture.recorder(), kTorch, 4096);
  const Site& site = capture.at<Site>(kSites, 1);
  EXPECT_EQ(site.live_bytes, 0u);
  EXPECT_EQ(site.end_number, capture.header().end_number);
  EXPECT_EQ(site.end_bytes, 90u);
  EXPECT_EQ(site.end_blocks, 9u);
  EXPECT_EQ(freed_survivors(capture).size(), 10u);
}

TEST(Recorder, what_is_freed_by_calls_just_before_the_end_is_gone) {
  ScratchCapture capture;
  allocate(capture, 1, 64, 10);
  allocate(capture, 1, 128, 10);
  record_free(capture.recorder(), kGpu, 64);
  record_work_ended(capture.recorder(), WorkEnd::kPythonProcessExits);
  record_free(capture.recorder(), kGpu, 128);
  const Site& site = capture.at<Site>(kSites, 1);
  EXPECT_EQ(site.end_number, capture.header().end_number | kAfterWork);
  EXPECT_EQ(site.end_bytes, 10u);
}

TEST(Recorder, work_that_goes_on_has_not_ended) {
  ScratchCapture capture;
  allocate(capture, 1, 64, 10);
  record_work_ended(capture.recorder(), WorkEnd::kInterpreterFinalizes);  // an embedded interpreter is done
  for (uint64_t i = 2; i <= 200; i++) allocate(capture, 1, i * 64, 10);
  EXPECT_EQ(capture.header().work_ended_serial, 0u);
  record_work_ended(capture.recorder(), WorkEnd::kInterpreterFinalizes);  // it still says so
  EXPECT_EQ(capture.header().work_ended_serial, 0u);
  record_work_ended(capture.recorder(), WorkEnd::kPythonProcessExits);
  EXPECT_EQ(capture.header().work_ended_serial, 200u);
}

TEST(Recorder, an_exiting_process_does_not_go_on) {
  ScratchCapture capture;
  allocate(capture, 1, 64, 10);
  record_work_ended(capture.recorder(), WorkEnd::kProcessExits);
  for (uint64_t i = 2; i <= 200; i++) allocate(capture, 1, i * 64, 10);  // by exit handlers
  EXPECT_EQ(capture.header().work_ended_serial, 1u);
}

TEST(Recorder, a_fall_that_ends_the_run_is_in_no_floor) {
  ScratchCapture capture;
  for (uint64_t i = 1; i <= 40; i++) allocate(capture, 1, i * 64, 10);
  const Curve& curve = capture.at<Curve>(kCurves, 1);
  const float floor = curve.floor[curve.last_window];
  for (uint64_t i = 1; i <= 40; i++) record_free(capture.recorder(), kGpu, i * 64);
  record_work_ended(capture.recorder(), WorkEnd::kPythonProcessExits);
  EXPECT_GE(curve.floor[curve.last_window], floor);
}

TEST(Recorder, an_address_given_out_again_replaces_the_unseen_free) {
  ScratchCapture capture;
  allocate(capture, 1, 64, 10);
  allocate(capture, 2, 64, 30);
  EXPECT_EQ(live_blocks(capture), (std::map<uint64_t, uint64_t>{{64, 30}}));
  EXPECT_EQ(capture.at<Site>(kSites, 1).live_bytes, 0u);
}

TEST(Recorder, layers_may_hold_the_same_address) {
  ScratchCapture capture;
  allocate(capture, 1, 64, 1 << 20);
  allocate(capture, 2, 64, 512, kTorch);
  record_free(capture.recorder(), kTorch, 64);
  EXPECT_EQ(capture.at<Space>(kSpaces, 1).live_bytes, 1u << 20);
  EXPECT_EQ(capture.at<Space>(kSpaces, 2).live_bytes, 0u);
}

TEST(Recorder, threads_lose_nothing) {
  ScratchCapture capture;
  constexpr int kThreads = 8, kRounds = 20000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back([&capture, t] {
      for (uint64_t i = 0; i < kRounds; i++) {
        const uint64_t address = (uint64_t{static_cast<uint32_t>(t) + 1} << 32) + i;
        allocate(capture, t + 1, address, 8, t % 2 ? kGpu : kTorch);
        if (i % 10) record_free(capture.recorder(), t % 2 ? kGpu : kTorch, address);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(live_blocks(capture).size(), kThreads * kRounds / 10u);
  EXPECT_EQ(capture.header().serial, uint64_t{kThreads} * kRounds);
  for (uint32_t i = 1; i < capture.count(kSites); i++) EXPECT_EQ(capture.at<Site>(kSites, i).allocations, uint64_t{kRounds});
}

TEST(Recorder, a_refused_allocation_names_the_largest_holders) {
  ScratchCapture capture;
  for (uint32_t s = 1; s <= 40; s++) allocate(capture, s, s * 64, s * 1000);
  record_incident(capture.recorder(), {.kind = IncidentKind::kOutOfMemory, .space = kGpu, .stack = 3, .size = 1 << 30});
  const Incident& incident = capture.at<Incident>(kIncidents, 1);
  ASSERT_EQ(incident.top_count, kTopSites);
  for (uint32_t i = 0; i < kTopSites; i++) EXPECT_EQ(incident.top[i].bytes, (40 - i) * 1000u);
}

TEST(Recorder, equal_incidents_are_folded) {
  ScratchCapture capture;
  for (int i = 0; i < 100; i++)
    record_incident(capture.recorder(), {.kind = IncidentKind::kInvalidFree, .fault = FreeFault::kDoubleFree, .space = kGpu, .stack = 3});
  EXPECT_EQ(capture.count(kIncidents), 2u);
  EXPECT_EQ(capture.at<Incident>(kIncidents, 1).count, 100u);
}

}  // namespace
}  // namespace vramtrack

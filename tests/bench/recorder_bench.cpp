// What the parts of an event cost on their own: the native stack, its id, the tables.
#include <benchmark/benchmark.h>

#include <cstdlib>

#include "interpose/hash.h"
#include "interpose/native_stack.h"
#include "interpose/stack.h"
#include "tests/unit/scratch_capture.h"

namespace vramtrack {
namespace {

constexpr int kFrames = 30;

struct Bench {
  ScratchCapture capture;
  Unwinder unwinder{};
  Surroundings around{};
  StackSources sources{};

  Bench() {
    load_unwinder(unwinder);
    prepare_thread_states();
    sources.interner = &capture.interner();
    sources.native_on = true;
    sources.native_depth = 40;
    around.unwinder = &unwinder;
    sources.around = &around;
    sources.unwinds = &capture.header().native_unwinds;
  }
};

Bench& bench() {
  static Bench made;
  return made;
}

template <class Work>
[[gnu::noinline]] uint64_t deep(int frames, Work& work) {
  const uint64_t result = frames > 1 ? deep(frames - 1, work) : work();
  asm volatile("" ::: "memory");  // work after the call: it must not become a jump
  return result;
}

// Runs `event` below kFrames frames as a hook would: with the call site of the function that is intercepted.
template <class Event>
void below_frames(benchmark::State& state, Event event) {
  bench();
  auto loop = [&]() -> uint64_t {
    for (auto _ : state) event(VRAMTRACK_CALL_SITE);
    return 0;
  };
  benchmark::DoNotOptimize(deep(kFrames, loop));
}

void native_stack_of_30_frames(benchmark::State& state) {
  below_frames(state, [](CallSite site) {
    ThreadState& thread = *thread_state(1);
    benchmark::DoNotOptimize(
        read_native_stack(bench().unwinder, thread.native, bench().capture.interner(), site, {40, 0, 0}).count);
  });
}

void native_stack_and_its_id(benchmark::State& state) {
  below_frames(state, [](CallSite site) {
    benchmark::DoNotOptimize(take_stack(bench().sources, *thread_state(1), site, Backward::kNone).id);
  });
}

void tables_allocation_and_free(benchmark::State& state) {
  Recorder& recorder = bench().capture.recorder();
  const SpaceKey space = {format::Layer::kPytorch, format::Memory::kDevice, 0};
  for (auto _ : state) {
    record_allocation(recorder, {space, format::Kind::kDevice, 4096, 512, 0, nullptr, 1, 1});
    record_free(recorder, space, 4096);
  }
}

void tables_with_100000_blocks_live(benchmark::State& state) {
  Recorder& recorder = bench().capture.recorder();
  const SpaceKey space = {format::Layer::kPytorch, format::Memory::kDevice, 1};
  uint64_t next = 0;
  const auto address = [](uint64_t i) { return (1 + i % 100000) * 512; };
  for (uint64_t i = 0; i < 100000; i++) record_allocation(recorder, {space, format::Kind::kDevice, address(i), 512, 0, nullptr, 1, 1});
  for (auto _ : state) {
    record_free(recorder, space, address(next));
    record_allocation(recorder, {space, format::Kind::kDevice, address(next), 512, 0, nullptr, 1, 1});
    next += 7919;
  }
}

void whole_event_and_free(benchmark::State& state) {
  Recorder& recorder = bench().capture.recorder();
  const SpaceKey space = {format::Layer::kPytorch, format::Memory::kDevice, 2};
  const uint64_t unwinds = bench().capture.header().native_unwinds;
  below_frames(state, [&](CallSite site) {
    const uint32_t stack = take_stack(bench().sources, *thread_state(1), site, Backward::kNone).id;
    record_allocation(recorder, {space, format::Kind::kDevice, 4096, 512, 0, nullptr, stack, 1});
    record_free(recorder, space, 4096);
  });
  const double missed = static_cast<double>(bench().capture.header().native_unwinds - unwinds);
  state.counters["verified"] = 1 - missed / static_cast<double>(state.iterations());
}

BENCHMARK(native_stack_of_30_frames);
BENCHMARK(native_stack_and_its_id);
BENCHMARK(tables_allocation_and_free);
BENCHMARK(tables_with_100000_blocks_live);
BENCHMARK(whole_event_and_free);

}  // namespace
}  // namespace vramtrack

BENCHMARK_MAIN();

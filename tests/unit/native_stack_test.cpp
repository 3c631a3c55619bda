// Is a verified stack always the one that a full unwind would have given?
//
// Every result, hit or not, is compared with libc's: see native_stack_watcher.h.
#include "interpose/hash.h"
#include "tests/unit/native_stack_watcher.h"

#include <alloca.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <random>
#include <thread>

namespace vramtrack {
namespace {

// Call shapes: each goes one level deeper and comes back.

using Random = std::minstd_rand;
void descend(Random& random, uint32_t depth);

[[gnu::noinline]] void plainly(Random& random, uint32_t depth) {
  descend(random, depth);
  asm volatile("");
}

[[gnu::noinline]] void with_array(Random& random, uint32_t depth) {
  volatile char room[200];
  room[depth] = 1;
  descend(random, depth);
  room[0] = room[depth];
}

// The buffer keeps what earlier calls left in it, return addresses among them.
[[gnu::noinline]] void with_alloca(Random& random, uint32_t depth) {
  volatile char* room = static_cast<volatile char*>(alloca(16 * (1 + random() % 12)));
  room[0] = 1;
  descend(random, depth);
  room[0] = room[0] + 1;
}

[[gnu::noinline]] void through_function(Random& random, uint32_t depth) {
  const std::function<void()> call = [&random, depth] { descend(random, depth); };
  call();
  asm volatile("");
}

[[gnu::noinline]] void through_qsort(Random& random, uint32_t depth) {
  thread_local Random* current;
  thread_local uint32_t current_depth;
  thread_local bool done;
  current = &random;
  current_depth = depth;
  done = false;
  int numbers[2] = {2, 1};
  qsort(numbers, 2, sizeof numbers[0], [](const void* a, const void* b) {
    if (!done) {
      done = true;
      descend(*current, current_depth);
    }
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  });
}

struct alignas(64) Aligned {
  volatile char room[64];
};
[[gnu::noinline]] void realigned(Random& random, uint32_t depth) {
  Aligned aligned;
  aligned.room[depth % 64] = 1;
  descend(random, depth);
  aligned.room[0] = aligned.room[depth % 64];
}

[[gnu::noinline]] void with_exception(Random& random, uint32_t depth) {
  try {
    descend(random, depth);
    if (random() % 8 == 0) throw 1;
  } catch (int) {
  }
}

// One call site for all shapes: what stands at it does not tell which shape was called.
[[gnu::noinline]] void descend(Random& random, uint32_t depth) {
  static constexpr void (*kShapes[])(Random&, uint32_t) = {plainly,       with_array, with_alloca,   through_function,
                                                           through_qsort, realigned,  with_exception};
  if (depth == 0) return hook();
  kShapes[random() % std::size(kShapes)](random, depth - 1);
  asm volatile("");
}

void run_random_shapes(Watcher& watch, uint32_t seed, uint32_t rounds, uint32_t kinds) {
  const Watching watching(watch);
  for (uint32_t i = 0; i < rounds; ++i) {
    Random shape(seed + random() % kinds);  // each shape comes again and again
    shape.discard(3);
    descend(shape, 1 + shape() % 24);
  }
}

void expect_right(Watcher& watch, const char* what) {
  EXPECT_EQ(watch.wrong, 0u);
  std::printf("%s: %u verified, %u unwound (%.2f %% hits)\n", what, watch.hits, watch.misses,
              100.0 * watch.hits / (watch.hits + watch.misses));
}

TEST(NativeStack, finds_libunwind) { EXPECT_EQ(libunwind().state, format::UnwinderState::kLibunwind); }

TEST(NativeStack, random_shapes_equal_a_full_unwind) {
  Watcher few, many;
  run_random_shapes(few, 1, 40000, 60);
  expect_right(few, "60 shapes");
  EXPECT_GT(few.hits, 39000u);
  run_random_shapes(many, 1000, 40000, 1000000);
  expect_right(many, "shapes that hardly repeat");
}

TEST(NativeStack, random_shapes_equal_a_full_unwind_with_libgcc) {
  Watcher watch;
  watch.unwinder = libgcc();
  run_random_shapes(watch, 1, 20000, 60);
  expect_right(watch, "60 shapes, libgcc");
  EXPECT_GT(watch.hits, 19000u);
}

TEST(NativeStack, threads_equal_a_full_unwind) {
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 6; ++t) {
    threads.emplace_back([t] {
      Watcher watch;
      run_random_shapes(watch, 100 * t, 6000, 50);
      EXPECT_EQ(watch.wrong, 0u);
      EXPECT_GT(watch.hits, 5500u);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(NativeStack, depth_is_cut) {
  Watcher watch;
  watch.options.max_depth = 3;
  run_random_shapes(watch, 1, 4000, 40);
  expect_right(watch, "cut at 3");
  EXPECT_EQ(watch.last.count, 3u);
}

// Stale words.

uint32_t gap_bytes;

[[gnu::noinline]] void with_gap() {
  volatile char* room = static_cast<volatile char*>(alloca(gap_bytes));
  asm volatile("" : : "r"(room) : "memory");
  hook();
  asm volatile("");
}

[[gnu::noinline]] void pass_on() {
  gap_bytes = 16;
  with_gap();
  asm volatile("");
}

void (*middle)() = pass_on;

[[gnu::noinline]] void call_middle() {
  middle();
  asm volatile("");
}

struct Look {
  void (*function)();
  uint32_t gap_bytes;
};

[[gnu::noipa]] void look_at_all(const std::vector<Look>& looks) {
  for (const Look& look : looks) {
    middle = look.function;
    gap_bytes = look.gap_bytes;
    call_middle();
    asm volatile("");
  }
}

// with_gap, called directly with a buffer as large as the frame it replaces, has its hook at the same address as through
// pass_on; and that frame's return address still lies in the buffer.
TEST(NativeStack, words_left_in_a_buffer_are_no_frames) {
  std::vector<Look> looks;
  for (int lap = 0; lap < 3; ++lap) {
    for (uint32_t bytes = 16; bytes <= 160; bytes += 16) {
      looks.push_back({pass_on, 0});
      looks.push_back({with_gap, bytes});
    }
  }
  Watcher watch;
  const Watching watching(watch);
  look_at_all(looks);
  middle = pass_on;
  EXPECT_EQ(watch.wrong, 0u);
  EXPECT_GT(watch.hits, 40u);
}

// The table.

TEST(NativeStack, table_forgets_the_oldest_and_stays_right) {
  Watcher watch;
  const Watching watching(watch);
  std::minstd_rand seeds(5);
  for (uint32_t i = 0; i < 30000; ++i) {
    Random shape(seeds() % 3000);
    descend(shape, 1 + shape() % 30);
  }
  expect_right(watch, "3000 shapes");
  EXPECT_GT(watch.hits, 1000u);
}

TEST(NativeStack, unloading_a_module_forgets_everything) {
  Watcher watch;
  const Watching watching(watch);
  repeat(3, call_middle);
  EXPECT_EQ(watch.hits, 2u);
  ++watch.interner.generation;
  const uint32_t misses = watch.misses;
  repeat(3, call_middle);
  EXPECT_EQ(watch.misses, misses + 1);
}

[[gnu::noinline]] void call_plugin(const char* name) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  void* plugin = dlopen((here / name).c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(plugin, nullptr) << dlerror();
  const auto call = reinterpret_cast<void (*)(void (*)())>(dlsym(plugin, "plugin_call"));
  for (int i = 0; i < 3; ++i) call(hook);
  dlclose(plugin);
  ++watcher->interner.generation;
}

TEST(NativeStack, plugins_come_and_go) {
  Watcher watch;
  const Watching watching(watch);
  for (int i = 0; i < 20; ++i) {
    call_plugin("native_stack_plugin_a.so");
    call_plugin("native_stack_plugin_b.so");
  }
  EXPECT_EQ(watch.wrong, 0u);
  EXPECT_EQ(watch.hits, 80u);
}

TEST(NativeStack, released_table_is_unmapped) {
  Watcher watch;
  const Watching watching(watch);
  call_middle();
  void* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(watch.table.memory) & ~uintptr_t{4095});
  unsigned char resident;
  EXPECT_EQ(mincore(page, 4096, &resident), 0);
  release_native_stack_table(watch.table);
  EXPECT_NE(mincore(page, 4096, &resident), 0);
  call_middle();
  EXPECT_EQ(watch.wrong, 0u);
}

TEST(NativeStack, small_stacks_suffice) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 * 1024);
  const auto work = [](void*) -> void* {
    Watcher watch;
    watch.compare = false;
    const Watching watching(watch);
    repeat(5, call_middle);
    return watch.hits == 4 ? nullptr : &libunwind();
  };
  std::vector<pthread_t> threads(1000);
  for (pthread_t& thread : threads) ASSERT_EQ(pthread_create(&thread, &attributes, work, nullptr), 0);
  uint32_t without_hits = 0;
  for (const pthread_t& thread : threads) {
    void* result;
    pthread_join(thread, &result);
    if (result != nullptr) ++without_hits;
  }
  EXPECT_EQ(without_hits, 0u);
  pthread_attr_destroy(&attributes);
}

// Other stacks.

ucontext_t main_context, coroutine;

TEST(NativeStack, coroutine_stacks_are_not_remembered) {
  Watcher watch;
  const Watching watching(watch);
  for (int i = 0; i < 4; ++i) {
    const size_t size = 256 * 1024;
    void* stack = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&coroutine);
    coroutine.uc_stack = {stack, 0, size};
    coroutine.uc_link = &main_context;
    makecontext(&coroutine, call_middle, 0);
    swapcontext(&main_context, &coroutine);
    munmap(stack, size);
  }
  EXPECT_EQ(watch.hits, 0u);
  EXPECT_EQ(watch.misses, 4u);
  EXPECT_GE(watch.last.count, 4u);
}

void on_signal(int) { hook(); }

void raise_signal(int flags) {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = flags;
  sigaction(SIGUSR1, &action, nullptr);
  for (int i = 0; i < 3; ++i) raise(SIGUSR1);
}

TEST(NativeStack, signal_handlers_are_unwound_every_time) {
  Watcher watch;
  const Watching watching(watch);
  raise_signal(0);
  static char alternate[64 * 1024];
  const stack_t stack = {alternate, 0, sizeof alternate};
  sigaltstack(&stack, nullptr);
  raise_signal(SA_ONSTACK);
  const stack_t none = {nullptr, SS_DISABLE, 0};
  sigaltstack(&none, nullptr);
  EXPECT_EQ(watch.hits, 0u);
  EXPECT_EQ(watch.wrong, 0u);
}

// The interpreter.

TEST(NativeStack, stops_where_the_interpreter_called) {
  Watcher watch;
  const Watching watching(watch);
  call_middle();
  const std::vector<uintptr_t> all = watch.last_addresses();
  ASSERT_GE(all.size(), 4u);
  EXPECT_FALSE(watch.last.reached_python);
  watch.compare = false;
  watch.options.stop_begin = all[2];
  watch.options.stop_end = all[2] + 1;
  for (int i = 0; i < 2; ++i) {
    call_middle();
    EXPECT_EQ(watch.last_addresses(), std::vector<uintptr_t>(all.begin(), all.begin() + 2));
    EXPECT_TRUE(watch.last.reached_python);
    EXPECT_EQ(watch.last.hit, i == 1);
    EXPECT_EQ(watch.last.hash, hash_mix(hash_mix(0, watch.last.frames[0]), watch.last.frames[1]));
  }
  watch.options.stop_begin = all[0];
  watch.options.stop_end = all[0] + 1;
  call_middle();
  EXPECT_EQ(watch.last.count, 0u);
  EXPECT_TRUE(watch.last.reached_python);
}

TEST(NativeStack, without_an_unwinder_the_caller_remains) {
  Watcher watch;
  watch.unwinder = {};
  watch.options.max_depth = 1;
  const Watching watching(watch);
  for (int i = 0; i < 2; ++i) call_middle();
  EXPECT_EQ(watch.wrong, 0u);
  EXPECT_EQ(watch.last.count, 1u);
}

// Cost: the best of many short laps, since the machine is shared.

[[gnu::noinline]] double time_hook(uint32_t rounds) {
  double best_ns = 1e9;
  for (int lap = 0; lap < 400; ++lap) {
    const auto begin = std::chrono::steady_clock::now();
    for (uint32_t i = 0; i < rounds; ++i) hook();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
    best_ns = std::min(best_ns, taken.count() / rounds);
  }
  return best_ns;
}

[[gnu::noinline]] double time_at_depth(uint32_t depth, uint32_t rounds) {
  const double taken = depth == 0 ? time_hook(rounds) : time_at_depth(depth - 1, rounds);
  asm volatile("");
  return taken;
}

[[gnu::noinline]] double time_unwind(const Unwinder& unwinder, uint32_t depth) {
  if (depth != 0) {
    const double taken = time_unwind(unwinder, depth - 1);
    asm volatile("");
    return taken;
  }
  const CallSite site = VRAMTRACK_CALL_SITE;
  double best_ns = 1e9;
  for (int lap = 0; lap < 200; ++lap) {
    UnwoundFrame frames[30];
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; ++i) EXPECT_EQ(unwind(unwinder, site, 0, 0, frames, 30), 30u);
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
    best_ns = std::min(best_ns, taken.count() / 20);
  }
  return best_ns;
}

TEST(NativeStack, cost_is_printed) {
  Watcher watch;
  watch.compare = false;
  watch.options.max_depth = 30;
  const Watching watching(watch);
  const double hit_ns = time_at_depth(30, 1000);
  EXPECT_EQ(watch.last.count, 30u);
  watch.options.max_depth = 1;
  watch.unwinder = {};
  const double empty_ns = time_at_depth(30, 1000);
  std::printf("30 frames: verified %.1f ns (one frame: %.1f ns), unwound %.0f ns, by libgcc %.0f ns\n", hit_ns, empty_ns,
              time_unwind(libunwind(), 30), time_unwind(libgcc(), 30));
}

}  // namespace
}  // namespace vramtrack

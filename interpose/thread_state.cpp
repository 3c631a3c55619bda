// What does a thread keep between its events, and who gets it when the thread ends? See thread_state.h.
#include "interpose/thread_state.h"

#include <atomic>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/lock.h"

namespace vramtrack {
namespace {

thread_local ThreadState* own;
thread_local bool ended;

pthread_key_t exit_key;
std::atomic<bool> exit_key_made;

// States of ended threads. Only ever tried for: after a fork the lock may be one that no thread will release.
Lock free_lock;
ThreadState* free_states;

// Unlike our other memory a state is copied into a forked child: the child's own thread looks at its epoch.
ThreadState* map_state() {
  void* p = mmap(nullptr, sizeof(ThreadState), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<ThreadState*>(p);
}

void give_back(void* state) {
  ended = true;
  own = nullptr;
  auto* gone = static_cast<ThreadState*>(state);
  release_native_stack_table(gone->native);
  madvise(gone, sizeof *gone, MADV_DONTNEED);  // zeroed when it is next touched: a thousand ended threads shall hold nothing
  if (pthread_mutex_trylock(&free_lock.mutex) != 0) {
    munmap(gone, sizeof *gone);
    return;
  }
  gone->next_free = free_states;
  free_states = gone;
  pthread_mutex_unlock(&free_lock.mutex);
}

ThreadState* take_free() {
  if (pthread_mutex_trylock(&free_lock.mutex) != 0) return nullptr;
  ThreadState* state = free_states;
  if (state) free_states = state->next_free;
  pthread_mutex_unlock(&free_lock.mutex);
  return state;
}

void make_empty(ThreadState& state, uint64_t epoch) {
  if (state.epoch) {  // another recording's; a new state is zeros, whose pages are best left untouched
    release_native_stack_table(state.native);
    memset(&state.python, 0, sizeof state.python);
    for (ThreadState::RecentStack& recent : state.recent) recent = {};
  }
  state.epoch = epoch;
  state.id = static_cast<uint32_t>(syscall(SYS_gettid));
}

ThreadState* make() {
  if (!exit_key_made.load(std::memory_order_acquire)) return nullptr;  // pairs with prepare
  ThreadState* state = take_free();
  if (!state) state = map_state();
  if (state && pthread_setspecific(exit_key, state) != 0) {
    munmap(state, sizeof *state);
    return nullptr;
  }
  return state;
}

}  // namespace

ThreadState* thread_state(uint64_t epoch) {
  if (own && own->epoch == epoch) [[likely]] return own;
  if (ended) return nullptr;
  if (!own && !(own = make())) return nullptr;
  make_empty(*own, epoch);
  return own;
}

void prepare_thread_states() {
  if (!exit_key_made.load(std::memory_order_relaxed) && pthread_key_create(&exit_key, give_back) == 0)
    exit_key_made.store(true, std::memory_order_release);  // pairs with make
}

void forget_thread_states() {
  free_lock = {};
  free_states = nullptr;
}

}  // namespace vramtrack

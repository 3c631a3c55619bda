// A mutex held for tens of nanoseconds, and its guard. Never held across a call into the program.
#pragma once

#include <pthread.h>

namespace vramtrack {

// All zero bits is unlocked, so that a zeroed structure is ready. After fork the child abandons every lock with the
// recording that owns it.
struct Lock {
  pthread_mutex_t mutex;
};
static_assert(sizeof(pthread_mutex_t) > 0);

class Locked {
 public:
  explicit Locked(Lock& lock) : lock_(lock) { pthread_mutex_lock(&lock_.mutex); }
  ~Locked() { pthread_mutex_unlock(&lock_.mutex); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Lock& lock_;
};

}  // namespace vramtrack

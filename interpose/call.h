// One intercepted call: whose name and whose stack an event gets, and when our own work must stay invisible.
//
// cudaMalloc calls cuMemAlloc_v2; both are intercepted, the driver's is recorded. The outermost intercepted call of a thread
// lends its name and its call site, so that the record says what the program wrote.
#pragma once

#include <cerrno>
#include <cstdint>

#include "interpose/native_stack.h"

namespace vramtrack {

// The outermost intercepted call of a thread.
struct OuterCall {
  const char* api = nullptr;  // static storage
  CallSite site = {};
};

// Lives for the time of one intercepted call, the real one included. Nothing but two thread-local stores.
class Call {
 public:
  Call(const char* api, CallSite site) : saved_(current) {
    // A call left by longjmp or an exception has not run its destructor; its frame then no longer encloses ours.
    const bool nested = current.api && current.site.frame > site.frame;
    if (!nested) current = {api, site};
  }
  ~Call() { current = saved_; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  static const OuterCall& outermost() { return current; }

 private:
  OuterCall saved_;
  static constinit thread_local OuterCall current;
};

// Our own work on this thread. What it allocates or calls must not come back to us as an event, and errno must stay as the
// real call left it. `entered()` is false inside another one: then there is nothing to be done.
class OwnWork {
 public:
  OwnWork() : errno_(errno), entered_(!busy) { busy = true; }
  ~OwnWork() {
    if (entered_) busy = false;
    errno = errno_;
  }
  OwnWork(const OwnWork&) = delete;
  OwnWork& operator=(const OwnWork&) = delete;

  bool entered() const { return entered_; }

 private:
  int errno_;
  bool entered_;
  static constinit thread_local bool busy;
};

}  // namespace vramtrack

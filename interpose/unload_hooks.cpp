// A library that goes makes room for another at the same addresses: what was remembered of its code must go with it.
//
// Only the end of a library is watched. dlopen is left alone: we would become its caller, and the program's search paths be lost.
#include "interpose/events.h"
#include "interpose/loader.h"
#include "interpose/shared_lookup.h"

extern "C" __attribute__((visibility("default"))) int dlclose(void* handle) {
  const int result = vramtrack::real_dlclose()(handle);
  vramtrack::forget_shared_functions();
  vramtrack::library_closed();
  return result;
}

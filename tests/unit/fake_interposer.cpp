// Another preloaded library with the same trick: it replaces puts and a driver function and finds the real ones by RTLD_NEXT.
#include <cstdio>
#include <dlfcn.h>

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int puts(const char* text) {
  const auto real = reinterpret_cast<decltype(&puts)>(dlsym(RTLD_NEXT, "puts"));
  if (real == &puts) {
    fputs("RTLD_NEXT led back to its caller\n", stderr);
    return -1;
  }
  fputs("interposed: ", stdout);
  return real(text);
}

EXPORTED int cuMemFree_v2(unsigned long long address) {
  const auto real = reinterpret_cast<decltype(&cuMemFree_v2)>(dlsym(RTLD_NEXT, "cuMemFree_v2"));
  return real ? real(address) : -1;
}

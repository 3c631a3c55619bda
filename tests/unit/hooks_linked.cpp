// A program linked with libcuda.so.1, which therefore looks nothing up: symbol interposition must bring it to the wrappers.
#include <cstdio>
#include <dlfcn.h>

extern "C" int cuMemAlloc_v2(unsigned long long*, size_t);
extern "C" int cuMemFree_v2(unsigned long long);

int main() {
  unsigned long long address = 0;
  if (cuMemAlloc_v2(&address, 10) || cuMemFree_v2(address)) return 1;
  const auto events = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "vramtrack_fake_events"));
  puts(events ? events() : "no events");
}

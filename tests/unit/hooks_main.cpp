// Runs the hooks' tests that live in libraries: opens the ones given, out of everybody's sight, then runs what they registered.
#include <cstdio>
#include <dlfcn.h>
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (!dlopen(argv[i], RTLD_NOW | RTLD_LOCAL)) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
  }
  return RUN_ALL_TESTS();
}

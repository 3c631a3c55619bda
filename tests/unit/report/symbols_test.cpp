// Names and lines of native addresses, asked of this test's own binary and of the C library.
#include "report/symbols.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

#include <cstdlib>
#include <fstream>

#include "report/module_symbols.h"

namespace vramtrack {
namespace {

// The address after an instruction of its own: what a return address is to a call.
[[gnu::always_inline]] inline uint64_t inlined_here() {
  uint64_t here;
#if defined(__x86_64__)
  asm volatile("lea 0(%%rip), %0" : "=r"(here));
#else
  asm volatile("adr %0, ." : "=r"(here));
#endif
  return here;
}
constexpr int kInlinedBody = __LINE__ - 7;
[[gnu::noinline]] uint64_t outer_function() { return inlined_here(); }
constexpr int kOuterBody = __LINE__ - 1;

uint64_t load_bias(const void* address) {
  Dl_info info;
  link_map* map = nullptr;
  dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP);
  return map->l_addr;
}

Heap heap_with(const std::string& path, uint64_t bias, uint64_t return_address) {
  Heap heap;
  Module module;
  module.path = path;
  module.load_bias = bias;
  heap.modules = {module};
  heap.frames = {{FrameKind::kNative, return_address, 0, {}}, {FrameKind::kNative, return_address, 0, {}}};
  Site site;
  site.stack = {0};
  heap.sites = {site};
  return heap;
}

TEST(Symbols, inlined_calls_come_innermost_first) {
  uint64_t address = outer_function();
  Heap heap = heap_with("/proc/self/exe", load_bias(reinterpret_cast<void*>(&outer_function)), address);
  resolve(heap);
  const std::vector<Location>& at = heap.frames[0].locations;
  ASSERT_EQ(at.size(), 2u);
  EXPECT_TRUE(at[0].function.ends_with("inlined_here")) << at[0].function;
  EXPECT_NEAR(at[0].line, kInlinedBody, 3);
  EXPECT_TRUE(at[1].function.ends_with("outer_function")) << at[1].function;
  EXPECT_EQ(at[1].line, kOuterBody);
  EXPECT_TRUE(at[1].file.ends_with("symbols_test.cpp"));
}

TEST(Symbols, frames_that_nothing_reports_stay_unresolved) {
  Heap heap = heap_with("/proc/self/exe", load_bias(reinterpret_cast<void*>(&outer_function)), outer_function());
  resolve(heap);
  EXPECT_TRUE(heap.frames[1].locations.empty());
}

TEST(Symbols, library_without_debug_information_gives_function_names) {
  auto* function = dlsym(RTLD_DEFAULT, "qsort");
  Dl_info info;
  dladdr(function, &info);
  Heap heap = heap_with(info.dli_fname, load_bias(function), reinterpret_cast<uint64_t>(function) + 2);
  resolve(heap);
  ASSERT_FALSE(heap.frames[0].locations.empty());
  EXPECT_NE(heap.frames[0].locations.back().function.find("qsort"), std::string::npos);
}

TEST(Symbols, another_build_gives_a_note_and_no_names) {
  Heap heap = heap_with("/proc/self/exe", load_bias(reinterpret_cast<void*>(&outer_function)), outer_function());
  heap.modules[0].build_id = "0123456789abcdef";
  resolve(heap);
  EXPECT_TRUE(heap.frames[0].locations.empty());
  ASSERT_EQ(heap.process.notes.size(), 1u);
  EXPECT_NE(heap.process.notes[0].find("another build"), std::string::npos);
}

TEST(Symbols, missing_and_broken_files_give_notes) {
  Heap missing = heap_with("/nonexistent/lib.so", 0, 100);
  resolve(missing);
  EXPECT_EQ(missing.process.notes.size(), 1u);
  Heap broken = heap_with("/etc/passwd", 0, 100);
  resolve(broken);
  EXPECT_EQ(broken.process.notes.size(), 1u);
}

TEST(Symbols, damaged_object_files_never_crash) {
  std::ifstream self("/proc/self/exe", std::ios::binary);
  std::vector<char> bytes(1 << 16);
  self.read(bytes.data(), static_cast<long>(bytes.size()));
  char path[] = "/tmp/vramtrack-symbols-XXXXXX";
  close(mkstemp(path));
  for (size_t i = 0; i < 256; ++i) {
    bytes[i] = static_cast<char>(~bytes[i]);
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<long>(bytes.size()));
    const uint64_t addresses[] = {0x1000, 0x2000};
    module_symbols(path, "", addresses, "");
    bytes[i] = static_cast<char>(~bytes[i]);
  }
  unlink(path);
}

TEST(Symbols, readable_function_names) {
  EXPECT_EQ(readable_function("main"), "main");
  EXPECT_EQ(readable_function("_ZN2at6native10empty_cudaEii"), "at::native::empty_cuda");
  EXPECT_EQ(readable_function("_Z3fooIiEvT_"), "foo<int>");
  EXPECT_EQ(readable_function("_ZNK1AclEi"), "A::operator()");
  EXPECT_EQ(readable_function("_ZN12_GLOBAL__N_11fEv"), "(anonymous namespace)::f");
  EXPECT_EQ(readable_function("_ZN1AcvbEv"), "A::operator bool");
  EXPECT_EQ(readable_function("_Znot_a_name"), "_Znot_a_name");
}

}  // namespace
}  // namespace vramtrack

// Does the simulator obey its environment and live through fork and exit, and can a C program use the static runtime? What
// needs a fresh process runs in a child: this program again, with a scenario's name. The other sim_*_test.cpp share this main.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string>

#include "sim_test.h"

namespace {

std::string own_directory() {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  std::string whole(path, length > 0 ? static_cast<size_t>(length) : 0);
  return whole.substr(0, whole.rfind('/'));
}

struct ChildResult {
  int exit_code;
  std::string output;
};

// Runs a command with the given environment in front and gathers what it prints.
ChildResult run_child(const std::string& environment, const std::string& command) {
  ChildResult result{-1, ""};
  FILE* pipe = popen((environment + " " + command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  char buffer[4096];
  while (size_t count = fread(buffer, 1, sizeof buffer, pipe)) result.output.append(buffer, count);
  int status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return result;
}

ChildResult run_scenario(const std::string& name, const std::string& environment = "") {
  return run_child(environment, own_directory() + "/sim_test --scenario=" + name);
}

int scenario_third_allocation() {
  void* p = nullptr;
  for (int i = 1; i <= 4; i++) std::printf("%d ", cudaMalloc(&p, 64));
  return 0;
}

int scenario_devices() {
  int count = -1;
  cudaError_t error = cudaGetDeviceCount(&count);
  size_t free_bytes = 0, total_bytes = 0;
  if (error == cudaSuccess && cudaSetDevice(count - 1) == cudaSuccess) cudaMemGetInfo(&free_bytes, &total_bytes);
  std::printf("%d %d %zu", error, count, total_bytes);
  return 0;
}

// Memory and its accounting belong to the device that was current.
int scenario_second_device() {
  void *first = nullptr, *second = nullptr;
  size_t free_bytes[2], total_bytes;
  cudaPointerAttributes attributes{};
  if (cudaMalloc(&first, kMiB) || cudaSetDevice(1) || cudaMalloc(&second, 3 * kMiB)) return 1;
  cudaMemGetInfo(&free_bytes[1], &total_bytes);
  cudaSetDevice(0);
  cudaMemGetInfo(&free_bytes[0], &total_bytes);
  cudaPointerGetAttributes(&attributes, second);
  bool freed = cudaFree(second) == cudaSuccess;  // from the other device
  std::printf("%zu %zu %d %d", total_bytes - free_bytes[0], total_bytes - free_bytes[1], attributes.device, freed);
  return 0;
}

int scenario_sticky() {
  void* p = nullptr;
  char byte = 0;
  cudaMalloc(&p, 64);
  std::printf("%d ", cudaMemcpy(p, &byte, 1, cudaMemcpyHostToDevice));
  std::printf("%d ", cudaMalloc(&p, 64));
  std::printf("%d %d ", cudaGetLastError(), cudaGetLastError());
  std::printf("%d ", cudaDeviceReset());
  std::printf("%d", cudaMalloc(&p, 64));
  return 0;
}

int scenario_fork() {
  void* p = nullptr;
  if (cudaMalloc(&p, 64) != cudaSuccess) return 1;
  std::fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(cudaFree(p) == cudaErrorInitializationError ? 42 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 42 && cudaFree(p) == cudaSuccess ? 0 : 2;
}

int scenario_free_at_exit() {
  static void* p = nullptr;
  cudaMalloc(&p, 64);
  std::atexit([] {
    if (cudaFree(p) != cudaSuccess) _exit(3);
  });
  return 0;
}

int scenario_before_init() {
  CUdeviceptr p = 0;
  std::printf("%d ", DRIVER(cuMemAlloc, 3020)(&p, 64));
  std::printf("%d", DRIVER(cuInit, 2000)(0));
  return 0;
}

const std::map<std::string, int (*)()> kScenarios = {
    {"third_allocation", scenario_third_allocation}, {"devices", scenario_devices},
    {"second_device", scenario_second_device},       {"sticky", scenario_sticky},
    {"fork", scenario_fork},                         {"free_at_exit", scenario_free_at_exit},
    {"before_init", scenario_before_init},
};

TEST(Environment, nth_call_fails_and_only_that) {
  EXPECT_EQ(run_scenario("third_allocation", "VRAMTRACK_SIM_FAIL=cuMemAlloc_v2:3").output, "0 0 2 0 ");
}

TEST(Environment, every_call_from_the_nth_fails_with_the_chosen_error) {
  EXPECT_EQ(run_scenario("third_allocation", "VRAMTRACK_SIM_FAIL=cuMemFree_v2:1,cuMemAlloc_v2:2+:999").output, "0 999 999 999 ");
  EXPECT_EQ(run_scenario("third_allocation", "VRAMTRACK_SIM_FAIL=cuMemAlloc_v2:4:CUDA_ERROR_DEINITIALIZED").output, "0 0 0 4 ");
}

TEST(Environment, misspelt_rule_is_named) {
  EXPECT_NE(run_scenario("third_allocation", "VRAMTRACK_SIM_FAIL=cuMemAlloc_v2:x").output.find("'cuMemAlloc_v2:x'"),
            std::string::npos);
}

TEST(Environment, device_count_and_memory) {
  EXPECT_EQ(run_scenario("devices", "VRAMTRACK_SIM_DEVICES=3 VRAMTRACK_SIM_MEMORY=256M").output, "0 3 268435456");
  EXPECT_EQ(run_scenario("devices", "VRAMTRACK_SIM_DEVICES=0").output, "100 0 0");
  EXPECT_EQ(run_scenario("second_device", "VRAMTRACK_SIM_DEVICES=2").output, "1048576 3145728 1 1");
}

TEST(Process, broken_context_stays_broken_until_reset) {
  EXPECT_EQ(run_scenario("sticky", "VRAMTRACK_SIM_FAIL=cuMemcpyHtoD_v2:1:CUDA_ERROR_ILLEGAL_ADDRESS").output,
            "700 700 700 700 0 0");
}

TEST(Process, forked_child_is_not_initialised_and_parent_goes_on) { EXPECT_EQ(run_scenario("fork").exit_code, 0); }
TEST(Process, memory_can_be_freed_at_exit) { EXPECT_EQ(run_scenario("free_at_exit").exit_code, 0); }
TEST(Process, driver_must_be_initialised) { EXPECT_EQ(run_scenario("before_init").output, "3 0"); }

TEST(Process, static_runtime_serves_a_c_program) {
  ChildResult result = run_child("", own_directory() + "/sim_static");
  EXPECT_EQ(result.output, "per thread and legacy: fine\n");
  EXPECT_EQ(result.exit_code, 0);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr const char* kOption = "--scenario=";
  if (argc == 2 && std::strncmp(argv[1], kOption, std::strlen(kOption)) == 0) {
    auto scenario = kScenarios.find(argv[1] + std::strlen(kOption));
    return scenario == kScenarios.end() ? 64 : scenario->second();
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

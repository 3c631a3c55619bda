// Does the driver answer for a name, a version and flags as the real one? The expectations were seen on driver 580.
#include "sim_test.h"

namespace {

using LookupTest = Sim;

TEST_F(LookupTest, answers_the_exported_variant_of_name_version_and_flags) {
  struct Case {
    const char* name;
    int version;
    cuuint64_t flags;
    const char* symbol;
  };
  const Case cases[] = {
      {"cuMemAlloc", 3020, 0, "cuMemAlloc_v2"},
      {"cuMemAlloc", 13000, 2, "cuMemAlloc_v2"},
      {"cuGetProcAddress", 11030, 0, "cuGetProcAddress"},
      {"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"},
      {"cuMemAllocAsync", 11020, 0, "cuMemAllocAsync"},
      {"cuMemAllocAsync", 11020, 1, "cuMemAllocAsync"},
      {"cuMemAllocAsync", 11020, 2, "cuMemAllocAsync_ptsz"},
      {"cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds"},
      {"cuCtxCreate", 3020, 0, "cuCtxCreate_v2"},
      {"cuCtxCreate", 11040, 0, "cuCtxCreate_v3"},
      {"cuCtxCreate", 12050, 0, "cuCtxCreate_v4"},
      {"cuCtxGetDevice", 12000, 0, "cuCtxGetDevice"},
      {"cuCtxGetDevice", 13000, 0, "cuCtxGetDevice_v2"},
      {"cuStreamBeginCapture", 10000, 2, "cuStreamBeginCapture_ptsz"},
      {"cuStreamBeginCapture", 10010, 2, "cuStreamBeginCapture_v2_ptsz"},
      {"cuGraphInstantiate", 10000, 0, "cuGraphInstantiate"},
      {"cuGraphInstantiate", 12000, 0, "cuGraphInstantiate_v2"},
      {"cuMemAllocHost", 12000, 0, "cuMemAllocHost_v2"},
  };
  for (const Case& c : cases) {
    Lookup found = look_up(c.name, c.version, c.flags);
    EXPECT_EQ(found.result, CUDA_SUCCESS) << c.name;
    EXPECT_EQ(found.status, CU_GET_PROC_ADDRESS_SUCCESS) << c.name;
    EXPECT_NE(found.address, nullptr) << c.name;
    EXPECT_EQ(found.address, dlsym(driver_library(), c.symbol)) << c.name << " " << c.version << " " << c.flags;
  }
}

TEST_F(LookupTest, unknown_names_succeed_with_null_and_a_status) {
  for (const char* name : {"", "cuNoSuchFunction", "cuMemAlloc_v2"}) {
    Lookup found = look_up(name, 12000);
    EXPECT_EQ(found.result, CUDA_SUCCESS);
    EXPECT_EQ(found.address, nullptr);
    EXPECT_EQ(found.status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  }
}

TEST_F(LookupTest, too_old_a_version_is_told_apart) {
  EXPECT_EQ(look_up("cuMemAllocAsync", 11010).status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  Lookup per_thread = look_up("cuMemcpyHtoD", 3020, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  EXPECT_EQ(per_thread.status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(per_thread.address, nullptr);
}

TEST_F(LookupTest, newer_than_the_driver_or_unknown_flags_are_errors) {
  EXPECT_EQ(look_up("cuMemAlloc", 99000).result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(look_up("cuMemAlloc", 12000, 8).result, CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LookupTest, takes_the_empty_probe_without_a_status_pointer) {
  void* address = &address;
  auto get = driver_symbol<PFN_cuGetProcAddress_v12000>("cuGetProcAddress_v2");
  EXPECT_EQ(get("", &address, 0, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(address, nullptr);
}

TEST_F(LookupTest, four_argument_form_says_not_found) {
  void* address = nullptr;
  auto get = driver_symbol<PFN_cuGetProcAddress_v11030>("cuGetProcAddress");
  EXPECT_EQ(get("cuNoSuchFunction", &address, 12000, 0), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(get("cuMemFree", &address, 12000, 0), CUDA_SUCCESS);
  EXPECT_EQ(address, dlsym(driver_library(), "cuMemFree_v2"));
}

TEST_F(LookupTest, runtime_hands_out_driver_entry_points) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult status;
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuMemFree", &address, 12000, cudaEnableDefault, &status), cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSuccess);
  EXPECT_EQ(address, dlsym(driver_library(), "cuMemFree_v2"));
}

TEST_F(LookupTest, undocumented_tables_do_not_exist) {
  const void* table = &table;
  CUuuid id{};
  EXPECT_EQ(DRIVER(cuGetExportTable, 3000)(&table, &id), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(table, nullptr);
}

}  // namespace

// Do programs get the wrappers, and only the wrappers, whichever way they look a driver function up? And what do the wrappers
// say? Runs with the hooks preloaded, on fake_driver.cpp and fake_events.cpp; see hooks_test.sh.
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <string>

#include "interpose/driver_api.h"

namespace {

template <typename T>
T* symbol(void* handle, const char* name) {
  return reinterpret_cast<T*>(dlsym(handle, name));
}

struct HooksTest : testing::Test {
  void* cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  decltype(cuMemAlloc_v2)* alloc = symbol<decltype(cuMemAlloc_v2)>(cuda, "cuMemAlloc_v2");
  decltype(cuMemFree_v2)* free = symbol<decltype(cuMemFree_v2)>(cuda, "cuMemFree_v2");
  CUresult& result = *symbol<CUresult>(cuda, "fake_result");
  CUstream& capturing = *symbol<CUstream>(cuda, "fake_capturing");
  CUdeviceptr address = 0;

  HooksTest() {
    symbol<void()>(RTLD_DEFAULT, "vramtrack_fake_reset")();
    result = CUDA_SUCCESS;
    capturing = nullptr;
  }
  static std::string events() { return symbol<const char*()>(RTLD_DEFAULT, "vramtrack_fake_events")(); }
  // Where the real function is, asked behind the hooks' back.
  bool is_wrapper(void* function) {
    Dl_info info;
    return dladdr(function, &info) && strstr(info.dli_fname, "libvramtrack");
  }
};

// Before libcuda is loaded, so it must come first.
TEST(NoCuda, default_scope_does_not_pretend_that_there_is_cuda) {
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "cuInit"), nullptr);
  EXPECT_NE(dlerror(), nullptr);
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "cudaMalloc"), nullptr);
}

TEST_F(HooksTest, dlsym_gives_the_wrapper) {
  EXPECT_TRUE(is_wrapper(reinterpret_cast<void*>(alloc)));
  EXPECT_TRUE(is_wrapper(dlsym(cuda, "cuGetProcAddress_v2")));
}

TEST_F(HooksTest, dlsym_leaves_the_rest_alone) {
  EXPECT_FALSE(is_wrapper(dlsym(cuda, "cuCtxGetCurrent")));
  EXPECT_FALSE(is_wrapper(dlsym(RTLD_DEFAULT, "printf")));
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "cu"), nullptr);
  EXPECT_EQ(dlsym(cuda, "cuMemAlloc_v3"), nullptr);
}

TEST_F(HooksTest, absent_function_stays_absent_and_dlerror_tells_so) {
  dlerror();
  EXPECT_EQ(dlsym(cuda, "cuMemAllocManaged"), nullptr);
  EXPECT_NE(dlerror(), nullptr);
  EXPECT_NE(dlsym(cuda, "cuMemAlloc_v2"), nullptr);
  EXPECT_EQ(dlerror(), nullptr);
}

TEST_F(HooksTest, dlvsym_of_libc_works) {
  EXPECT_NE(dlvsym(RTLD_DEFAULT, "printf", "GLIBC_2.2.5"), nullptr);
  EXPECT_EQ(dlvsym(RTLD_DEFAULT, "printf", "GLIBC_9"), nullptr);
}

TEST_F(HooksTest, proc_address_is_replaced_by_address_not_by_name) {
  auto* proc = symbol<decltype(cuGetProcAddress_v2)>(cuda, "cuGetProcAddress_v2");
  void *old_alloc, *new_alloc, *async, *async_ptsz, *self_old, *self_new, *other;
  proc("cuMemAlloc", &old_alloc, 2000, 0, nullptr);
  proc("cuMemAlloc", &new_alloc, 12000, 0, nullptr);
  proc("cuMemAllocAsync", &async, 12000, 0, nullptr);
  proc("cuMemAllocAsync", &async_ptsz, 12000, 2, nullptr);
  proc("cuGetProcAddress", &self_old, 11030, 0, nullptr);
  proc("cuGetProcAddress", &self_new, 12000, 0, nullptr);
  proc("cuCtxGetCurrent", &other, 12000, 0, nullptr);
  EXPECT_EQ(old_alloc, dlsym(cuda, "cuMemAlloc"));
  EXPECT_EQ(new_alloc, dlsym(cuda, "cuMemAlloc_v2"));
  EXPECT_EQ(async, dlsym(cuda, "cuMemAllocAsync"));
  EXPECT_EQ(async_ptsz, dlsym(cuda, "cuMemAllocAsync_ptsz"));
  EXPECT_EQ(self_old, dlsym(cuda, "cuGetProcAddress"));
  EXPECT_EQ(self_new, dlsym(cuda, "cuGetProcAddress_v2"));
  EXPECT_FALSE(is_wrapper(other));
}

TEST_F(HooksTest, proc_address_accepts_the_probes_of_the_runtime) {
  auto* proc = symbol<decltype(cuGetProcAddress_v2)>(cuda, "cuGetProcAddress_v2");
  void* function = this;
  EXPECT_EQ(proc("", &function, 0, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(proc("", nullptr, 0, 0, nullptr), CUDA_SUCCESS);
}

TEST_F(HooksTest, unhooked_memory_function_is_told_once) {
  dlsym(cuda, "cuTexRefCreate");
  dlsym(cuda, "cuTexRefCreate");
  EXPECT_EQ(events(), "unhooked cuTexRefCreate\n");
}

TEST_F(HooksTest, allocation_and_free_are_recorded_around_the_call) {
  EXPECT_EQ(alloc(&address, 100), CUDA_SUCCESS);
  free(address);
  EXPECT_EQ(events(),
            "cuMemAlloc: device device 1 address 2000 size 100 owner c0\n"
            "device 1 is Fake, 4096 bytes\n"
            "cuMemFree: frees device 2000\n"
            "cuMemFree: freed device 2000 result 0\n");
}

TEST_F(HooksTest, physical_memory_is_its_own_devices_and_its_references_are_told) {
  auto* create = symbol<decltype(cuMemCreate)>(cuda, "cuMemCreate");
  CUmemAllocationProp properties = {};
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {2}};  // device 1 is current
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(create(&handle, 4096, &properties, 0), CUDA_SUCCESS);
  symbol<decltype(cuMemMap)>(cuda, "cuMemMap")(0xd000, 4096, 0, handle, 0);
  symbol<decltype(cuMemRelease)>(cuda, "cuMemRelease")(handle);
  symbol<decltype(cuMemUnmap)>(cuda, "cuMemUnmap")(0xd000, 4096);
  symbol<decltype(cuMemImportFromShareableHandle)>(cuda, "cuMemImportFromShareableHandle")(&handle, nullptr, CU_MEM_HANDLE_TYPE_NONE);
  EXPECT_EQ(events(),
            "cuMemCreate: physical device 2 handle a000 size 4096\n"
            "mapped a000 at d000 size 4096\n"
            "releases physical a000\n"
            "released physical a000 result 0\n"
            "unmaps d000 size 4096\n"
            "unmapped result 0\n"
            "cuMemImportFromShareableHandle: physical device 3 handle a100 size 0 foreign\n");
}

TEST_F(HooksTest, refused_physical_memory_is_told) {
  auto* create = symbol<decltype(cuMemCreate)>(cuda, "cuMemCreate");
  CUmemAllocationProp properties = {};
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {2}};
  CUmemGenericAllocationHandle handle = 0;
  result = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(create(&handle, 4096, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(create(nullptr, 4096, nullptr, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(events(),
            "cuMemCreate: refused physical device 2 size 4096 result 2 out of memory\n"
            "cuMemCreate: refused physical device -1 size 4096 result 2 out of memory\n");
}

TEST_F(HooksTest, other_processes_memory_is_opened_and_closed) {
  CUdeviceptr opened = 0;
  symbol<decltype(cuIpcOpenMemHandle_v2)>(cuda, "cuIpcOpenMemHandle_v2")(&opened, {}, 0);
  symbol<decltype(cuIpcCloseMemHandle)>(cuda, "cuIpcCloseMemHandle")(opened);
  EXPECT_EQ(events(),
            "cuIpcOpenMemHandle: ipc device 1 handle a200 size 777 foreign\n"
            "releases ipc a200\n"
            "released ipc a200 result 0\n");
}

TEST_F(HooksTest, handles_are_recorded_around_the_calls) {
  CUstream stream = nullptr;
  EXPECT_EQ(symbol<decltype(cuStreamCreate)>(cuda, "cuStreamCreate")(&stream, 0), CUDA_SUCCESS);
  EXPECT_EQ(errno, 77);
  symbol<decltype(cuStreamDestroy_v2)>(cuda, "cuStreamDestroy_v2")(stream);
  EXPECT_EQ(events(),
            "cuStreamCreate: stream device 1 handle 8000 owner c0\n"
            "-: destroys stream 8000\n"
            "-: freed stream 8000 result 0\n");
}

TEST_F(HooksTest, a_handle_that_could_not_be_made_is_none) {
  result = CUDA_ERROR_OUT_OF_MEMORY;
  CUstream stream = nullptr;
  EXPECT_EQ(symbol<decltype(cuStreamCreate)>(cuda, "cuStreamCreate")(&stream, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(events(), "");
}

TEST_F(HooksTest, errno_is_the_real_calls) {
  errno = 0;
  alloc(&address, 100);
  EXPECT_EQ(errno, 77);
}

TEST_F(HooksTest, refusal_is_told_with_its_device) {
  result = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(alloc(&address, 100), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(events(), "cuMemAlloc: refused device device 1 size 100 result 2 out of memory\n");
}

TEST_F(HooksTest, missing_context_is_no_refusal) {
  result = CUDA_ERROR_INVALID_CONTEXT;
  EXPECT_EQ(alloc(&address, 100), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(events(), "");
}

TEST_F(HooksTest, failed_free_is_finished_with_its_result) {
  result = CUDA_ERROR_INVALID_VALUE;
  EXPECT_EQ(free(0x10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(events(), "cuMemFree: frees device 10\ncuMemFree: freed device 10 result 1\n");
}

TEST_F(HooksTest, freeing_null_is_no_event) {
  EXPECT_EQ(free(0), CUDA_SUCCESS);
  EXPECT_EQ(events(), "");
}

TEST_F(HooksTest, null_out_pointer_is_passed_on) {
  EXPECT_EQ(alloc(nullptr, 100), CUDA_SUCCESS);
  EXPECT_EQ(events(), "");
}

TEST_F(HooksTest, pitch_counts_the_padding) {
  auto* alloc_pitch = symbol<decltype(cuMemAllocPitch_v2)>(cuda, "cuMemAllocPitch_v2");
  size_t pitch;
  alloc_pitch(&address, &pitch, 100, 10, 4);
  EXPECT_EQ(events(), "cuMemAllocPitch: device device 1 address 3000 size 5120 owner c0\n");
}

TEST_F(HooksTest, stream_ordered_memory_belongs_to_its_pool) {
  auto* alloc_async = symbol<decltype(cuMemAllocAsync)>(cuda, "cuMemAllocAsync_ptsz");
  alloc_async(&address, 64, nullptr);
  EXPECT_EQ(events(), "cuMemAllocAsync: stream device 1 address 5000 size 64 owner b0\n");
}

TEST_F(HooksTest, a_capturing_stream_adds_nodes_to_its_graph) {
  auto* alloc_async = symbol<decltype(cuMemAllocAsync)>(cuda, "cuMemAllocAsync");
  auto* free_async = symbol<decltype(cuMemFreeAsync)>(cuda, "cuMemFreeAsync");
  capturing = reinterpret_cast<CUstream>(0x5);
  alloc_async(&address, 64, capturing);
  free_async(address, capturing);
  free_async(address, reinterpret_cast<CUstream>(0x6));
  EXPECT_EQ(events(),
            "cuMemAllocAsync: node 4000 of 64 bytes of graph 9000\n"
            "cuMemFreeAsync: node 4000 of 0 bytes of graph 9000\n"
            "cuMemFreeAsync: frees device 4000\n"
            "cuMemFreeAsync: freed device 4000 result 0\n");
}

TEST_F(HooksTest, host_memory_has_no_device) {
  void* host = nullptr;
  symbol<decltype(cuMemHostAlloc)>(cuda, "cuMemHostAlloc")(&host, 32, 0);
  symbol<decltype(cuMemFreeHost)>(cuda, "cuMemFreeHost")(host);
  symbol<decltype(cuMemHostRegister_v2)>(cuda, "cuMemHostRegister_v2")(host, 32, 0);
  EXPECT_EQ(events(),
            "cuMemHostAlloc: pinned device -1 address 6000 size 32 owner c0\n"
            "cuMemFreeHost: frees pinned 6000\n"
            "cuMemFreeHost: freed pinned 6000 result 0\n"
            "cuMemHostRegister: registered device -1 address 6000 size 32 owner c0\n");
}

TEST_F(HooksTest, array_is_its_texels) {
  CUarray array;
  CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor = {16, 8, 0, CU_AD_FORMAT_FLOAT, 4, 0};
  symbol<decltype(cuArray3DCreate_v2)>(cuda, "cuArray3DCreate_v2")(&array, &descriptor);
  symbol<decltype(cuArrayDestroy)>(cuda, "cuArrayDestroy")(array);
  EXPECT_EQ(events(),
            "cuArray3DCreate: array device 1 address 7000 size 2048 owner c0\n"
            "cuArrayDestroy: frees array 7000\n"
            "cuArrayDestroy: freed array 7000 result 0\n");
}

TEST_F(HooksTest, contexts_are_recorded_on_the_device_they_are_made_on) {
  CUcontext context = nullptr;
  CUgreenCtx green = nullptr;
  symbol<decltype(cuCtxCreate_v4)>(cuda, "cuCtxCreate_v4")(&context, nullptr, 0, 2);
  symbol<decltype(cuGreenCtxCreate)>(cuda, "cuGreenCtxCreate")(&green, nullptr, 0, 1);
  symbol<decltype(cuGreenCtxDestroy)>(cuda, "cuGreenCtxDestroy")(green);
  EXPECT_EQ(events(),
            "cuCtxCreate: context device 2 handle c1 owner c1\n"
            "cuGreenCtxCreate: green context device 1 handle c2 owner c0\n"
            "-: destroys green context c2\n"
            "-: freed green context c2 result 0\n");
}

TEST_F(HooksTest, a_reset_is_of_the_primary_context_alone) {
  CUcontext context = nullptr;
  symbol<decltype(cuDevicePrimaryCtxRetain)>(cuda, "cuDevicePrimaryCtxRetain")(&context, 3);
  symbol<decltype(cuDevicePrimaryCtxReset_v2)>(cuda, "cuDevicePrimaryCtxReset_v2")(3);
  symbol<decltype(cuDevicePrimaryCtxReset_v2)>(cuda, "cuDevicePrimaryCtxReset_v2")(3);
  EXPECT_EQ(events(),
            "cuDevicePrimaryCtxRetain: context device 3 handle c0 owner c0\n"
            "cuDevicePrimaryCtxReset: gone device 3 context c0\n"
            "cuDevicePrimaryCtxReset: gone device 3 context 0\n");
}

TEST_F(HooksTest, pools_are_known_by_their_device_and_threshold) {
  CUmemPoolProps properties = {};
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {2}};
  CUmemoryPool pool = nullptr;
  cuuint64_t threshold = 4096;
  symbol<decltype(cuMemPoolCreate)>(cuda, "cuMemPoolCreate")(&pool, &properties);
  auto* set = symbol<decltype(cuMemPoolSetAttribute)>(cuda, "cuMemPoolSetAttribute");
  set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
  set(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &threshold);
  symbol<decltype(cuMemPoolDestroy)>(cuda, "cuMemPoolDestroy")(pool);
  EXPECT_EQ(events(),
            "cuMemPoolCreate: pool device 1 handle b1 owner c0\n"
            "pool b1 device 2\n"
            "pool b1 threshold 4096\n"
            "-: destroys pool b1\n"
            "-: freed pool b1 result 0\n"
            "pool b1 gone\n");
}

TEST_F(HooksTest, another_processs_pool_and_pointer_are_foreign) {
  CUmemoryPool pool = nullptr;
  CUmemPoolPtrExportData shared = {};
  symbol<decltype(cuMemPoolImportFromShareableHandle)>(cuda, "cuMemPoolImportFromShareableHandle")(&pool, nullptr, CU_MEM_HANDLE_TYPE_NONE, 0);
  symbol<decltype(cuMemPoolImportPointer)>(cuda, "cuMemPoolImportPointer")(&address, pool, &shared);
  EXPECT_EQ(events(),
            "cuMemPoolImportFromShareableHandle: pool device 1 handle b2 owner c0\n"
            "pool b2 device -1 foreign\n"
            "cuMemPoolImportPointer: shared device 1 address a300 size 777 owner c0\n");
}

TEST_F(HooksTest, multicast_binds_memory_by_handle_and_by_address) {
  CUmemGenericAllocationHandle object = 0;
  symbol<decltype(cuMulticastCreate)>(cuda, "cuMulticastCreate")(&object, nullptr);
  symbol<decltype(cuMulticastBindMem)>(cuda, "cuMulticastBindMem")(object, 0x1000, 0xa000, 0, 4096, 0);
  symbol<decltype(cuMulticastBindAddr)>(cuda, "cuMulticastBindAddr")(object, 0x2000, 0xd000, 4096, 0);
  symbol<decltype(cuMulticastUnbind)>(cuda, "cuMulticastUnbind")(object, 3, 0x1000, 4096);
  result = CUDA_ERROR_INVALID_VALUE;
  symbol<decltype(cuMulticastUnbind)>(cuda, "cuMulticastUnbind")(object, 3, 0x1000, 4096);
  EXPECT_EQ(events(),
            "cuMulticastCreate: multicast device -1 handle a400 size 1\n"
            "bound a000 at a400+1000 size 4096\n"
            "bound what is at d000 at a400+2000 size 4096\n"
            "unbound a400+1000 size 4096\n");
}

TEST_F(HooksTest, tiles_of_a_sparse_array_are_mapped_and_unmapped) {
  CUarrayMapInfo map = {};
  map.resourceType = CU_RESOURCE_TYPE_ARRAY;
  map.resource.array = reinterpret_cast<CUarray>(0x70);
  map.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
  map.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
  map.memHandle.memHandle = 0xa000;
  CUarrayMapInfo unmap = map;
  unmap.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
  CUarrayMapInfo both[] = {map, unmap};
  symbol<decltype(cuMemMapArrayAsync)>(cuda, "cuMemMapArrayAsync")(both, 2, nullptr);
  EXPECT_EQ(events(), "bound a000 at 70+0 size 1\nunbound 70+0 size 1\n");
}

TEST_F(HooksTest, another_apis_memory_is_an_object_and_its_buffers) {
  CUexternalMemory memory = nullptr;
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {};
  buffer.size = 4096;
  symbol<decltype(cuImportExternalMemory)>(cuda, "cuImportExternalMemory")(&memory, nullptr);
  symbol<decltype(cuExternalMemoryGetMappedBuffer)>(cuda, "cuExternalMemoryGetMappedBuffer")(&address, memory, &buffer);
  symbol<decltype(cuDestroyExternalMemory)>(cuda, "cuDestroyExternalMemory")(memory);
  free(address);
  EXPECT_EQ(events(),
            "cuImportExternalMemory: external memory device 1 handle e0 owner c0\n"
            "cuExternalMemoryGetMappedBuffer: shared device 1 address e1 size 4096 owner c0\n"
            "-: destroys external memory e0\n"
            "-: freed external memory e0 result 0\n"
            "cuMemFree: frees device e1\n"
            "cuMemFree: freed device e1 result 0\n");
}

TEST_F(HooksTest, graphics_resources_and_address_ranges_are_handles) {
  CUgraphicsResource resource = nullptr;
  symbol<decltype(cuGraphicsGLRegisterBuffer)>(cuda, "cuGraphicsGLRegisterBuffer")(&resource, 1, 0);
  symbol<decltype(cuGraphicsUnregisterResource)>(cuda, "cuGraphicsUnregisterResource")(resource);
  symbol<decltype(cuMemAddressReserve)>(cuda, "cuMemAddressReserve")(&address, 4096, 0, 0, 0);
  symbol<decltype(cuMemAddressFree)>(cuda, "cuMemAddressFree")(address, 4096);
  EXPECT_EQ(events(),
            "cuGraphicsGLRegisterBuffer: graphics resource device 1 handle e2 owner c0\n"
            "-: destroys graphics resource e2\n"
            "-: freed graphics resource e2 result 0\n"
            "cuMemAddressReserve: address range device 1 handle d0000 owner c0\n"
            "-: destroys address range d0000\n"
            "-: freed address range d0000 result 0\n");
}

TEST_F(HooksTest, a_user_objects_references_are_the_programs_until_a_graph_takes_them) {
  CUuserObject object = nullptr;
  symbol<decltype(cuUserObjectCreate)>(cuda, "cuUserObjectCreate")(&object, nullptr, nullptr, 3, 0);
  auto* give = symbol<decltype(cuGraphRetainUserObject)>(cuda, "cuGraphRetainUserObject");
  give(nullptr, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  give(nullptr, object, 1, 0);
  symbol<decltype(cuUserObjectRelease)>(cuda, "cuUserObjectRelease")(object, 2);
  EXPECT_EQ(events(),
            "cuUserObjectCreate: user object device -1 handle e3 size 1\n"
            "retained e3 2 times\n"
            "released e3 1 times\n"
            "released e3 2 times\n");
}

TEST_F(HooksTest, primary_context_goes_with_its_last_release) {
  auto* release = symbol<decltype(cuDevicePrimaryCtxRelease_v2)>(cuda, "cuDevicePrimaryCtxRelease_v2");
  release(1);
  EXPECT_EQ(events(), "");
  *symbol<int>(cuda, "fake_primary_active") = 0;
  release(1);
  EXPECT_EQ(events(), "cuDevicePrimaryCtxRelease: gone device 1 context 0\n");
}

TEST_F(HooksTest, destroyed_context_is_told) {
  symbol<decltype(cuCtxDestroy_v2)>(cuda, "cuCtxDestroy_v2")(reinterpret_cast<CUcontext>(0xc0));
  EXPECT_EQ(events(), "cuCtxDestroy: gone device -1 context c0\n");
}

}  // namespace

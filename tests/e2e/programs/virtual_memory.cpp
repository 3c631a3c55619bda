// Leaks physical memory in each of the ways there are, told by the first argument; "right" leaks none.
#include <cuda.h>

#include <cstring>

#include "check.h"

#define CHECK_DRIVER(call) CHECK(static_cast<cudaError_t>(call))

namespace {

constexpr size_t kPiece = 2 << 20;

CUmemGenericAllocationHandle create() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle;
  CHECK_DRIVER(cuMemCreate(&handle, kPiece, &properties, 0));
  return handle;
}

void use(bool unmap, bool release, bool retain) {
  CUdeviceptr address;
  CHECK_DRIVER(cuMemAddressReserve(&address, kPiece, 0, 0, 0));
  CUmemGenericAllocationHandle handle = create(), again;
  CHECK_DRIVER(cuMemMap(address, kPiece, 0, handle, 0));
  if (retain) CHECK_DRIVER(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(address)));
  if (release) CHECK_DRIVER(cuMemRelease(handle));
  if (!unmap) return;
  CHECK_DRIVER(cuMemUnmap(address, kPiece));
  CHECK_DRIVER(cuMemAddressFree(address, kPiece));
}

}  // namespace

int main(int, char** argv) {
  CHECK(cudaFree(nullptr));
  for (int i = 0; i < 40; i++) {
    use(true, true, false);
    use(std::strcmp(argv[1], "unmap") != 0, std::strcmp(argv[1], "release") != 0, std::strcmp(argv[1], "retain") == 0);
    void* scratch;
    CHECK(cudaMalloc(&scratch, 4096));
    CHECK(cudaFree(scratch));
  }
}

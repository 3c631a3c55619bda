// Stream-ordered memory out of a pool with a raised threshold: what is taken first is (idle) never needed again, (used) needed in each
// iteration, (grows) needed in each iteration and more each time; (trims) idle, but given back. (own) takes a pool of its own, and
// destroys it.
#include <unistd.h>

#include <string>
#include <vector>

#include "check.h"

constexpr size_t kMiB = 1 << 20;

static cudaStream_t stream;
static cudaMemPool_t pool;

static void keep_everything() {
  unsigned long long threshold = ~0ull;
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
}

static void use(size_t mib) {
  std::vector<void*> blocks(mib / 4);
  for (void*& block : blocks) CHECK(cudaMallocFromPoolAsync(&block, 4 * kMiB, pool, stream));
  for (void* block : blocks) CHECK(cudaFreeAsync(block, stream));
  CHECK(cudaStreamSynchronize(stream));
}

int main(int, char** argv) {
  const std::string how = argv[1];
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  if (how == "own") {
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, {0}};
    CHECK(cudaMemPoolCreate(&pool, &properties));
  }
  keep_everything();
  use(1024);
  if (how == "trims") CHECK(cudaMemPoolTrimTo(pool, 0));
  for (int i = 0; i < 60; i++) {
    use(how == "used" ? 1024 : how == "grows" ? 1024 + 16 * i : 8);
    usleep(how == "grows" ? 100000 : 20000);
  }
  if (how == "own") CHECK(cudaMemPoolDestroy(pool));
  CHECK(cudaStreamDestroy(stream));
}

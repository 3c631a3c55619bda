// When is the driver loaded and which context does a thread work in?
#include "runtime_driver.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>

namespace sim_runtime {

DriverCalls driver;
StreamCalls legacy;
StreamCalls per_thread;

namespace {

constexpr int kMaxDevices = 64;

struct Primary {
  CUcontext context;  // last seen
  bool retained;
};

pthread_once_t load_once = PTHREAD_ONCE_INIT;
cudaError_t load_error = cudaErrorInsufficientDriver;

pthread_mutex_t primaries_lock = PTHREAD_MUTEX_INITIALIZER;  // guards `primaries`
Primary primaries[kMaxDevices];

// Counts resets: a thread that last looked before one must bind anew.
std::atomic<unsigned> generation{1};
thread_local unsigned bound_generation;
thread_local int device;

template <class Function>
void look_up(PFN_cuGetProcAddress_v12000 get, const char* name, int version, cuuint64_t flags, Function& function) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status;
  get(name, &address, version, flags, &status);
  function = reinterpret_cast<Function>(address);
}

void load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return;
  auto get = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) return;
  void* probe = nullptr;
  get("", &probe, 0, 0, nullptr);  // NVIDIA's does this too: hooks must survive it
#define NEED(name, version) look_up(get, #name, version, CU_GET_PROC_ADDRESS_DEFAULT, driver.name);
#define NEED_STREAM(name, version, per_thread_version)                            \
  look_up(get, #name, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, legacy.name);   \
  look_up(get, #name, per_thread_version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, per_thread.name);
#include "runtime_needs.inc"
#undef NEED
#undef NEED_STREAM
  load_error = static_cast<cudaError_t>(driver.cuInit(0));
}

bool is_primary(CUcontext context) {
  for (const Primary& primary : primaries)
    if (primary.context == context) return true;
  return false;
}

// Makes the primary context of this thread's device current.
cudaError_t bind_primary() {
  pthread_mutex_lock(&primaries_lock);
  Primary& primary = primaries[device];
  CUresult result = CUDA_SUCCESS;
  if (!primary.retained) {
    result = driver.cuDevicePrimaryCtxRetain(&primary.context, device);
    primary.retained = result == CUDA_SUCCESS;
  }
  CUcontext context = primary.context;
  pthread_mutex_unlock(&primaries_lock);
  if (result == CUDA_SUCCESS) result = driver.cuCtxSetCurrent(context);
  if (result == CUDA_SUCCESS) bound_generation = generation.load(std::memory_order_relaxed);
  return static_cast<cudaError_t>(result);
}

}  // namespace

cudaError_t ensure_driver() {
  pthread_once(&load_once, load);
  return load_error;
}

cudaError_t ensure_context() {
  if (cudaError_t error = ensure_driver()) return error;
  CUcontext context = nullptr;
  if (CUresult result = driver.cuCtxGetCurrent(&context)) return static_cast<cudaError_t>(result);
  if (context != nullptr) {
    if (bound_generation == generation.load(std::memory_order_relaxed)) return cudaSuccess;
    pthread_mutex_lock(&primaries_lock);
    bool own = !is_primary(context);
    pthread_mutex_unlock(&primaries_lock);
    if (own) return cudaSuccess;  // the program's, made with the driver API
  }
  return bind_primary();
}

int current_device() { return device; }

cudaError_t select_device(int wanted) {
  if (cudaError_t error = ensure_driver()) return error;
  int count = 0;
  if (CUresult result = driver.cuDeviceGetCount(&count)) return static_cast<cudaError_t>(result);
  if (wanted < 0 || wanted >= count || wanted >= kMaxDevices) return cudaErrorInvalidDevice;
  device = wanted;
  return bind_primary();
}

cudaError_t reset_device() {
  if (cudaError_t error = ensure_driver()) return error;
  pthread_mutex_lock(&primaries_lock);
  primaries[device].retained = false;
  generation.fetch_add(1, std::memory_order_relaxed);
  CUresult result = driver.cuDevicePrimaryCtxReset(device);
  pthread_mutex_unlock(&primaries_lock);
  return static_cast<cudaError_t>(result);
}

}  // namespace sim_runtime

// Which exported function is meant by a name, a CUDA version and flags? cuGetProcAddress in both its ABIs.
//
// As documented and as seen on driver 580: the search never fails, it answers null and a status; only a version newer than the
// driver or an unknown flag is an error, and leaves the out-parameters alone. The 4-argument form has no status and returns
// CUDA_ERROR_NOT_FOUND. It works before cuInit.
#include <cstring>
#include <type_traits>

#include "machine.h"

namespace sim {
namespace {

struct Entry {
  const char* name;
  int version;  // the CUDA version that introduced this ABI of the name
  bool per_thread;
  void* address;
};

// A row that pairs a name and version with an export of another ABI does not compile.
#define ENTRY(name, version, suffix, symbol) \
  static_assert(std::is_same_v<PFN_##name##_v##version##suffix, decltype(&symbol)>, #symbol);
#include "driver_entries.inc"
#undef ENTRY

const Entry kEntries[] = {
#define ENTRY(name, version, suffix, symbol) {#name, version, sizeof(#suffix) > 1, reinterpret_cast<void*>(&symbol)},
#include "driver_entries.inc"
#undef ENTRY
};

struct Answer {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
};

Answer search(const char* name, int version, bool per_thread) {
  Answer answer;
  int best = 0;
  for (const Entry& entry : kEntries) {
    if (entry.per_thread != per_thread || std::strcmp(entry.name, name) != 0) continue;
    if (answer.address == nullptr) answer.status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    if (entry.version > version || entry.version <= best) continue;
    best = entry.version;
    answer = {entry.address, CU_GET_PROC_ADDRESS_SUCCESS};
  }
  return answer;
}

CUresult look_up(const char* name, int version, cuuint64_t flags, Answer& answer) {
  if (name == nullptr || version > kDriverVersion) return CUDA_ERROR_INVALID_VALUE;
  if (flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  if (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) answer = search(name, version, true);
  // A per-thread variant that is too new for `version` is not replaced by the legacy one.
  if (answer.status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) answer = search(name, version, false);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace sim

using namespace sim;

CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags) {
  if (CUresult failure = requested_failure(__func__)) return failure;
  Answer answer;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = look_up(name, version, flags, answer)) return error;
  if (answer.address == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = answer.address;
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char* name, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  if (CUresult failure = requested_failure(__func__)) return failure;
  Answer answer;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = look_up(name, version, flags, answer)) return error;
  *function = answer.address;
  if (status != nullptr) *status = answer.status;
  return CUDA_SUCCESS;
}

// NVIDIA's tables are undocumented and not imitated; this is what its driver answers for an id it does not know.
CUresult cuGetExportTable(const void** table, const CUuuid*) {
  if (CUresult failure = requested_failure(__func__)) return failure;
  if (table == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

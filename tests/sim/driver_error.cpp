// What are the driver's errors called? cuGetErrorName, cuGetErrorString and the way back from a name.
#include "error_names.h"

namespace sim {
namespace {

struct ErrorRow {
  CUresult error;
  const char* name;
  const char* description;
};

constexpr ErrorRow kErrors[] = {
#define ERROR(driver, runtime, description) {driver, #driver, description},
#include "errors.inc"
#undef ERROR
};

const ErrorRow* find(CUresult error) {
  for (const ErrorRow& row : kErrors)
    if (row.error == error) return &row;
  return nullptr;
}

}  // namespace

std::optional<CUresult> error_by_name(std::string_view name) {
  for (const ErrorRow& row : kErrors)
    if (name == row.name) return row.error;
  return std::nullopt;
}

}  // namespace sim

CUresult cuGetErrorName(CUresult error, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const sim::ErrorRow* row = sim::find(error);
  *name = row ? row->name : nullptr;
  return row ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** description) {
  if (description == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const sim::ErrorRow* row = sim::find(error);
  *description = row ? row->description : nullptr;
  return row ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

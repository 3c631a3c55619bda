// What do texture references do? They are deprecated and not simulated.
#include "machine.h"

using namespace sim;

CUresult cuTexRefCreate(CUtexref*) {
  return driver_call(__func__, [] { return CUDA_ERROR_NOT_SUPPORTED; });
}

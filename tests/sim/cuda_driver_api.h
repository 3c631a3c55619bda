// Which driver functions can the simulator export? Exactly those that cuda.h declares: the header is included with every ABI
// variant visible under its true name (no renaming of cuMemAlloc to cuMemAlloc_v2) and its declarations carry default
// visibility, everything else in the simulator is hidden.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop
#include <cudaTypedefs.h>

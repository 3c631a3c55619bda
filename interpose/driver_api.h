// The driver API under the names of its ABI: cuMemAlloc and cuMemAlloc_v2 are two functions here.
//
// cuda.h normally renames cuMemAlloc to cuMemAlloc_v2; this is its own switch for those who implement the interface. What it
// declares is visible outside the library: our wrappers are definitions of these declarations, so a wrong signature does not
// compile.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#pragma GCC visibility push(default)
#include <cuda.h>
#if CUDA_VERSION < 12000
extern "C" CUresult CUDAAPI cuGetProcAddress_v2(const char*, void**, int, cuuint64_t, int*);
#endif
// Declared in headers that need those of the other API.
extern "C" {
CUresult CUDAAPI cuGraphicsGLRegisterBuffer(CUgraphicsResource*, unsigned buffer, unsigned flags);
CUresult CUDAAPI cuGraphicsGLRegisterImage(CUgraphicsResource*, unsigned image, unsigned target, unsigned flags);
CUresult CUDAAPI cuGraphicsEGLRegisterImage(CUgraphicsResource*, void* image, unsigned flags);
CUresult CUDAAPI cuGraphicsVDPAURegisterVideoSurface(CUgraphicsResource*, unsigned surface, unsigned flags);
CUresult CUDAAPI cuGraphicsVDPAURegisterOutputSurface(CUgraphicsResource*, unsigned surface, unsigned flags);
}
#pragma GCC visibility pop

#if CUDA_VERSION < 12000
using DriverProcAddressStatus = int;
#else
using DriverProcAddressStatus = CUdriverProcAddressQueryResult;
#endif

// Which driver functions can the simulator export? Exactly those that cuda.h declares, and two of cudaGL.h: the header is
// included with every ABI variant visible under its true name (no renaming of cuMemAlloc to cuMemAlloc_v2) and its
// declarations carry default visibility, everything else in the simulator is hidden.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#pragma GCC visibility push(default)
#include <cuda.h>
// Of cudaGL.h, which needs a GL/gl.h; GLuint and GLenum are unsigned int.
extern "C" CUresult CUDAAPI cuGraphicsGLRegisterBuffer(CUgraphicsResource* resource, unsigned int buffer, unsigned int flags);
extern "C" CUresult CUDAAPI cuGraphicsGLRegisterImage(CUgraphicsResource* resource, unsigned int image, unsigned int target,
                                                      unsigned int flags);
#pragma GCC visibility pop
#include <cudaTypedefs.h>

using PFN_cuGraphicsGLRegisterBuffer_v3000 = decltype(&cuGraphicsGLRegisterBuffer);
using PFN_cuGraphicsGLRegisterImage_v3000 = decltype(&cuGraphicsGLRegisterImage);

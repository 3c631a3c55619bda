// Who makes and ends contexts? Used under the machine's lock.
#pragma once

#include "machine.h"

namespace sim {

CUcontext make_context(CUdevice device, unsigned flags);
// With everything made in it; green contexts end with their primary one. It stays known, as a dead one.
void end_context(CUcontext context);

CUcontext retain_primary(CUdevice device);
// Gives up one of the references that there are.
void release_primary(Device& device);

}  // namespace sim

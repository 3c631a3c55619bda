// Our wrappers of the driver's functions, in the order of hooks.def. See lookup.h.
#include "interpose/driver_api.h"
#include "interpose/lookup.h"

extern "C" {
#define DRIVER_HOOK(name) __attribute__((visibility("hidden"))) extern decltype(name) vramtrack_##name;
#include "interpose/hooks.def"
}

void* const vramtrack::kDriverWrappers[] = {
#define DRIVER_HOOK(name) reinterpret_cast<void*>(&vramtrack_##name),
#include "interpose/hooks.def"
};

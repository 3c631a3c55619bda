// A module to load and unload: see native_stack_test.cpp. Compiled twice with other frame sizes, so that what one leaves behind
// would be wrong for the other.
#ifndef PLUGIN_BYTES
#define PLUGIN_BYTES 64
#endif

extern "C" [[gnu::visibility("default")]] void plugin_call(void (*callback)()) {
  volatile char room[PLUGIN_BYTES];
  room[0] = 1;
  callback();
  room[PLUGIN_BYTES - 1] = room[0];
}

// What do we tell while the program runs? Where its captures are, and once, why there is none or no more of it.
//
// Under `vramtrack run` everything goes into its manifest: it is who speaks to the user, when the program has ended.
#pragma once

namespace vramtrack {

void tell_capture(const char* path);

// One line for the user: "`what` `path`: `why`; the program goes on unrecorded".
void tell_unrecorded(const char* what, const char* path, const char* why);

}  // namespace vramtrack

// Where PyTorch's own functions are found, once it is loaded.
#pragma once

namespace vramtrack {

// Takes the loader's lock, so only where the program can hold no allocator lock (see prepare_recording). Cheap when found.
void find_torch();

}  // namespace vramtrack

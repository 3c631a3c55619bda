// Gives strings, modules, frames and stacks their ids in the capture: equal things get equal ids, for ever.
//
// Called on misses only: the caches in front of it (python_frames.*, native_stack.*, stack.*) make a repeated stack one
// look-up. All functions may be called from any thread and take a short lock; none allocates through the program's malloc,
// calls into the program, or fails loudly: id 0 means "could not be recorded".
#pragma once

#include <cstdint>
#include <string_view>

namespace vramtrack {

struct Interner;  // interner_tables.h

uint32_t intern_string(Interner&, std::string_view text);
uint32_t intern_python_frame(Interner&, std::string_view function, std::string_view file, uint32_t line, uint32_t first_line);
// `return_address` is resolved against the modules loaded now.
uint32_t intern_native_frame(Interner&, uintptr_t return_address);
uint32_t intern_marker_frame(Interner&, std::string_view name);

// A stack as a 32-bit value: its id, and what its frames say about the moment.
struct StackRef {
  uint32_t id = 0;
  bool optimizer_step = false;  // taken where PyTorch's Python code announces Optimizer.step
};

// `frames`, innermost first, on top of the stack `base` (0 = none). `hash` stands for base and frames together: equal stacks
// have equal hashes, and 64 good bits make the reverse true for any program that will ever run.
StackRef intern_stack(Interner&, uint32_t base, const uint32_t* frames, uint32_t count, uint64_t hash);

// The stack remembered under `hash`; id 0 if there is none yet. No lock.
StackRef find_stack(const Interner&, uint64_t hash);

// Rises whenever a module was seen to be unloaded: addresses remembered before may mean other code now.
uint32_t module_generation(const Interner&);

// To be called when a module may have gone. Takes the loader's lock.
void notice_unloaded_modules(Interner&);

}  // namespace vramtrack

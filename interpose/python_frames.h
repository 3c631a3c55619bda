// Which Python frames is the calling thread in? Read from the thread's own memory, without the GIL.
//
// PyTorch's bindings release the GIL around most operators, so most allocations happen on a thread that does not hold it, and
// taking it inside an allocator deadlocks. But a thread's frame chain changes only on that thread, and that thread is the one
// that asks: reading the chain needs no lock. No reference count is touched and nothing of Python is called except
// PyGILState_GetThisThreadState, a read of thread-local storage that is legal without the GIL.
//
// Offsets: python_layouts.h. Decoding: python_code.h. Rejected: PyThreadState_GetFrame and friends, which take references and
// create objects, so need the GIL; a shadow stack kept by a profile function, which costs at every call.
#pragma once

#include "interpose/capture_format.h"
#include "interpose/interner.h"
#include "interpose/python_layouts.h"

#include <cstdint>

namespace vramtrack {

// The interpreter of this process. Plain data, constant once found (check_python_layout may turn `state`).
struct PythonInterpreter {
  void* (*this_thread_state)();  // PyGILState_GetThisThreadState
  int (*is_finalizing)();        // Py_IsFinalizing or _Py_IsFinalizing
  uintptr_t code_type;           // PyCode_Type
  PythonLayout layout;           // valid while state is kReading
  uint32_t layout_index;         // of the table that it equals; any other number if none
  uint32_t version_hex;          // as PY_VERSION_HEX
  bool free_threaded;
  format::PythonState state;
  // The executable part of the object file that holds the interpreter: where a native stack runs into Python.
  uintptr_t code_begin, code_end;
};

// Looks for the interpreter. False: there is no Python in this process, yet. With an unknown version the answer is true and
// `state` says kUnsupportedVersion.
//
// Takes the loader's lock: only where the program can hold no allocator's lock. Any thread, the GIL is not needed.
bool find_python(PythonInterpreter&);

// Compares what is read from memory with the official API, for the frames of the calling thread. True: they agree. False: they
// do not, or the memory is not what the layout says; then `state` becomes kSelfCheckFailed, and nothing is read any more.
//
// Only on a thread that holds the GIL and has no exception pending, outside any allocator: from a pending call. It creates
// Python objects. Without a Python frame there is nothing to compare, and the answer is true.
bool check_python_layout(PythonInterpreter&);

// True from the moment Py_Finalize takes the other threads' frames away. A few ns; no lock.
inline bool python_is_finalizing(const PythonInterpreter& python) {
  return python.is_finalizing != nullptr && python.is_finalizing() != 0;
}

// (code object, instruction) -> frame id. One per thread; zeroed it is empty, and it must be zeroed when the Interner changes.
struct PythonFrameCache {
  static constexpr uint32_t kEntries = 1024;

  struct Entry {
    uintptr_t code;
    uint64_t instruction;
    // Code objects die and their addresses are used again, often for the next version of the same function, whose strings may
    // get the old addresses too. An entry counts only while this, a mix of all that its frame was decoded from, is the same.
    uint64_t identity;
    uint32_t frame_id;
  };
  Entry entries[kEntries];
};
static_assert(sizeof(PythonFrameCache) <= 32 * 1024);

// Frame ids of the calling thread's Python frames, innermost first, at most `max`; *truncated says that there were more. None
// when the thread has no thread state, the interpreter is finalising, or its frames cannot be read (see `state`).
//
// Must not be entered again on the same thread, for the cache's sake. Keeps errno.
uint32_t read_python_frames(const PythonInterpreter&, PythonFrameCache&, Interner&, uint32_t* frame_ids, uint32_t max,
                            bool* truncated);

}  // namespace vramtrack

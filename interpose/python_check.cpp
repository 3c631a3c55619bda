// Does what is read from the interpreter's memory agree with what the interpreter says through its own API?
#include "interpose/python_chain.h"
#include "interpose/python_frames.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace vramtrack {
namespace {

constexpr uint32_t kMaxFramesCompared = 64;

// The API used, by name. All of it exists in 3.8 to 3.14. Frames are compared through their attributes: the functions that
// read a frame (PyFrame_GetBack, ...) do not exist in 3.8.
struct PythonApi {
  void* (*PyEval_GetFrame)();  // borrowed
  void* (*PyObject_GetAttrString)(void*, const char*);
  const char* (*PyUnicode_AsUTF8AndSize)(void*, ssize_t*);
  long (*PyLong_AsLong)(void*);
  void (*PyErr_Clear)();
  void (*Py_IncRef)(void*);
  void (*Py_DecRef)(void*);
};

template <typename Function>
bool find(void* module, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(module, name));
  return function != nullptr;
}

bool find_api(const PythonInterpreter& python, PythonApi& api) {
  Dl_info info;
  void* module = RTLD_DEFAULT;
  if (dladdr(reinterpret_cast<void*>(python.this_thread_state), &info) != 0 && info.dli_fname != nullptr) {
    void* opened = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);  // null for the program itself
    if (opened != nullptr) module = opened;
  }
  const bool found = find(module, "PyEval_GetFrame", api.PyEval_GetFrame) &&
                     find(module, "PyObject_GetAttrString", api.PyObject_GetAttrString) &&
                     find(module, "PyUnicode_AsUTF8AndSize", api.PyUnicode_AsUTF8AndSize) &&
                     find(module, "PyLong_AsLong", api.PyLong_AsLong) && find(module, "PyErr_Clear", api.PyErr_Clear) &&
                     find(module, "Py_IncRef", api.Py_IncRef) && find(module, "Py_DecRef", api.Py_DecRef);
  if (module != RTLD_DEFAULT) dlclose(module);
  return found;
}

// An owned reference to an attribute; null when there is none.
class Attribute {
 public:
  Attribute(const PythonApi& api, void* object, const char* name)
      : api_(api), object_(api.PyObject_GetAttrString(object, name)) {
    if (object_ == nullptr) api_.PyErr_Clear();
  }
  ~Attribute() { api_.Py_DecRef(object_); }
  Attribute(const Attribute&) = delete;
  Attribute& operator=(const Attribute&) = delete;

  void* get() const { return object_; }
  long number() const {
    const long value = object_ != nullptr ? api_.PyLong_AsLong(object_) : 0;
    if (value == -1) api_.PyErr_Clear();
    return value == -1 ? 0 : value;  // None (this instruction has no line) is -1 with an error
  }

 private:
  const PythonApi& api_;
  void* object_;
};

// Reads through the kernel, which says no where a load would be a fault. A kernel that forbids the call cannot be asked; then
// the memory is trusted, as it is on every later read.
bool readable(uintptr_t address, size_t size) {
  char copy[256];
  iovec local = {copy, size < sizeof copy ? size : sizeof copy};
  iovec remote = {reinterpret_cast<void*>(address), local.iov_len};
  const long read = syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0);
  return read == static_cast<long>(local.iov_len) || (read < 0 && errno != EFAULT);
}

bool readable_object(uintptr_t object, size_t size) { return plausible_object(object) && readable(object, size); }

// Everything that read_python_location will touch, but for the text itself.
bool readable_code(const PythonInterpreter& python, uintptr_t code) {
  const PythonLayout& layout = python.layout;
  constexpr size_t kHeader = 80;  // the largest of a string's headers
  return readable_object(code, 256) && python_field<uintptr_t>(code, layout.object_type) == python.code_type &&
         readable_object(python_field<uintptr_t>(code, layout.code_name), kHeader) &&
         readable_object(python_field<uintptr_t>(code, layout.code_filename), kHeader) &&
         readable_object(python_field<uintptr_t>(code, layout.code_line_table), 32);
}

bool same_text(const PythonApi& api, const Attribute& attribute, std::string_view text) {
  ssize_t size = 0;
  const char* utf8 = attribute.get() != nullptr ? api.PyUnicode_AsUTF8AndSize(attribute.get(), &size) : nullptr;
  if (utf8 == nullptr) api.PyErr_Clear();
  // Text that cannot be UTF-8 or was cut cannot be compared; the other fields are.
  if (utf8 == nullptr || static_cast<size_t>(size) > kMaxPythonText / 4) return true;
  return std::string_view(utf8, static_cast<size_t>(size)) == text;
}

bool same_frame(const PythonInterpreter& python, const PythonApi& api, uintptr_t frame, void* official) {
  const uintptr_t code = frame_code(python.layout, frame);
  const Attribute official_code(api, official, "f_code");
  if (reinterpret_cast<uintptr_t>(official_code.get()) != code || !readable_code(python, code)) return false;

  const PythonLocation read = read_python_location(python.layout, code, frame_instruction(python.layout, frame));
  const bool has_qualname = python.layout.has_instruction_pointer();
  return static_cast<long>(read.line) == Attribute(api, official, "f_lineno").number() &&
         static_cast<long>(read.first_line) == Attribute(api, official_code.get(), "co_firstlineno").number() &&
         same_text(api, Attribute(api, official_code.get(), has_qualname ? "co_qualname" : "co_name"), read.function()) &&
         same_text(api, Attribute(api, official_code.get(), "co_filename"), read.file());
}

// The next frame that Python would show, from `frame` on; 0 at the end of the chain or where it cannot be read.
uintptr_t shown_frame(const PythonInterpreter& python, uintptr_t frame) {
  const PythonLayout& layout = python.layout;
  while (readable_object(frame, 112)) {
    const uintptr_t code = frame_code(layout, frame);
    if (frame_owner(layout, frame) < kFirstShimOwner && readable_code(python, code) &&
        frame_is_complete(layout, frame, code, frame_instruction(layout, frame))) {
      return frame;
    }
    frame = previous_frame(layout, frame);
  }
  return 0;
}

// Compares frame by frame, innermost first; takes over the reference `official`.
bool same_chain(const PythonInterpreter& python, const PythonApi& api, uintptr_t frame, void* official) {
  bool same = true;
  for (uint32_t i = 0; i < kMaxFramesCompared && same; ++i) {
    frame = shown_frame(python, frame);
    if (!Attribute(api, official, "f_code").get()) {  // None, after the outermost frame
      same = frame == 0;
      break;
    }
    same = frame != 0 && same_frame(python, api, frame, official);
    if (!same) break;
    frame = previous_frame(python.layout, frame);
    void* back = api.PyObject_GetAttrString(official, "f_back");
    api.Py_DecRef(official);
    official = back;
  }
  api.Py_DecRef(official);
  return same;
}

bool same_thread(const PythonInterpreter& python, const PythonApi& api) {
  void* official = api.PyEval_GetFrame();
  if (official == nullptr) return true;
  const uintptr_t thread_state = reinterpret_cast<uintptr_t>(python.this_thread_state());
  if (!readable_object(thread_state, 128)) return false;
  api.Py_IncRef(official);
  return same_chain(python, api, innermost_frame(python.layout, thread_state), official);
}

}  // namespace

bool check_python_layout(PythonInterpreter& python) {
  if (python.state != format::PythonState::kReading) return false;
  const int saved_errno = errno;
  PythonApi api;
  const bool same = find_api(python, api) && same_thread(python, api);
  if (!same) python.state = format::PythonState::kSelfCheckFailed;
  errno = saved_errno;
  return same;
}

}  // namespace vramtrack

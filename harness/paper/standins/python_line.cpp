#include "harness/paper/standins/python_line.h"

#include <dlfcn.h>

#include <cstring>

namespace gradsync::paper {
namespace {

// The part of Python's stable interface that is needed, found at run time: a program in C++ has no
// interpreter. Each call returns a new reference but GetFrame and AsUTF8.
struct Python {
  int (*is_initialized)();
  int (*ensure)();
  void (*release)(int);
  void* (*get_frame)();
  void* (*get_back)(void*);
  void* (*get_code)(void*);
  int (*get_line)(void*);
  void* (*get_attribute)(void*, const char*);
  const char* (*as_utf8)(void*);
  void (*decrement)(void*);
  void (*increment)(void*);

  bool find();
};

bool Python::find() {
  const auto find = [](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(RTLD_DEFAULT, name));
    return function != nullptr;
  };
  return find(is_initialized, "Py_IsInitialized") && find(ensure, "PyGILState_Ensure") &&
         find(release, "PyGILState_Release") && find(get_frame, "PyEval_GetFrame") &&
         find(get_back, "PyFrame_GetBack") && find(get_code, "PyFrame_GetCode") &&
         find(get_line, "PyFrame_GetLineNumber") && find(get_attribute, "PyObject_GetAttrString") &&
         find(as_utf8, "PyUnicode_AsUTF8") && find(decrement, "Py_DecRef") &&
         find(increment, "Py_IncRef");
}

// Neither torch's nor gradsync's own hook, nor code that has no file.
bool is_the_jobs(const std::string& file) {
  return file.find("/torch/") == std::string::npos &&
         file.find("/gradsync_watch_") == std::string::npos && file.rfind('<', 0) != 0;
}

std::string file_of(const Python& python, void* frame) {
  void* code = python.get_code(frame);
  void* name = python.get_attribute(code, "co_filename");
  const char* text = name == nullptr ? nullptr : python.as_utf8(name);
  std::string file = text == nullptr ? "" : text;
  if (name != nullptr) python.decrement(name);
  python.decrement(code);
  return file;
}

}  // namespace

std::string line_of_python() {
  Python python{};
  if (!python.find() || python.is_initialized() == 0) return "";
  const int state = python.ensure();
  std::string line;
  void* frame = python.get_frame();
  if (frame != nullptr) python.increment(frame);
  while (frame != nullptr && line.empty()) {
    const std::string file = file_of(python, frame);
    if (is_the_jobs(file)) {
      line = file.substr(file.rfind('/') + 1) + ":" + std::to_string(python.get_line(frame));
    }
    void* outer = python.get_back(frame);
    python.decrement(frame);
    frame = outer;
  }
  if (frame != nullptr) python.decrement(frame);
  python.release(state);
  return line;
}

}  // namespace gradsync::paper

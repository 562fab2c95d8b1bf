#include "harness/paper/standins/python_frames.h"

#include <dlfcn.h>

#include <type_traits>

namespace gradsync::paper {
namespace {

// Each call returns a new reference but GetFrame and AsUTF8.
struct Python {
  int (*is_initialized)();
  int (*ensure)();
  void (*release)(int);
  void* (*get_frame)();
  void* (*get_back)(void*);
  void* (*get_code)(void*);
  int (*get_line)(void*);
  void* (*get_attribute)(void*, const char*);
  void* (*get_item)(void*, const char*);
  const char* (*as_utf8)(void*);
  void (*clear_error)();
  void (*decrement)(void*);
  void (*increment)(void*);
  bool is_there = find();

 private:
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
         find(get_item, "PyMapping_GetItemString") && find(as_utf8, "PyUnicode_AsUTF8") &&
         find(clear_error, "PyErr_Clear") && find(decrement, "Py_DecRef") &&
         find(increment, "Py_IncRef");
}

const Python& python() {
  static const Python python{};
  return python;
}

}  // namespace

int PythonFrame::line() const {
  return python().get_line(frame_);
}

// The code object keeps the text, and the frame the code.
std::string_view PythonFrame::name(const char* attribute) const {
  void* code = python().get_code(frame_);
  void* value = python().get_attribute(code, attribute);
  const char* text = value == nullptr ? nullptr : python().as_utf8(value);
  if (value != nullptr) python().decrement(value);
  python().decrement(code);
  return text == nullptr ? "" : text;
}

const void* PythonFrame::local(const char* variable) const {
  void* locals = python().get_attribute(frame_, "f_locals");
  void* value = locals == nullptr ? nullptr : python().get_item(locals, variable);
  if (value == nullptr) python().clear_error();
  if (value != nullptr) python().decrement(value);
  if (locals != nullptr) python().decrement(locals);
  return value;
}

void for_each_frame(const std::function<bool(const PythonFrame&)>& visit) {
  if (!python().is_there) return;
  void* frame = python().get_frame();
  if (frame != nullptr) python().increment(frame);
  while (frame != nullptr && visit(PythonFrame(frame))) {
    void* outer = python().get_back(frame);
    python().decrement(frame);
    frame = outer;
  }
  if (frame != nullptr) python().decrement(frame);
}

void with_interpreter(const std::function<void()>& act) {
  if (!python().is_there || python().is_initialized() == 0) return;
  const int state = python().ensure();
  act();
  python().release(state);
}

}  // namespace gradsync::paper

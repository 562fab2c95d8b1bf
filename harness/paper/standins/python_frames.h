// The frames of the Python code that runs on this thread, seen from C++ below it. Python's stable
// interface is found at run time: a program in C++ has no interpreter.
#pragma once

#include <functional>
#include <string_view>

namespace gradsync::paper {

// Valid within the call that it is given to.
class PythonFrame {
 public:
  explicit PythonFrame(void* frame) : frame_(frame) {}

  std::string_view file() const { return name("co_filename"); }
  std::string_view function() const { return name("co_name"); }
  int line() const;

  // Returns the address of what a local variable holds; null: there is no such variable.
  const void* local(const char* variable) const;

 private:
  std::string_view name(const char* attribute) const;

  void* frame_;
};

// Calls `visit` for each frame, the innermost first, until it returns false. Call with the
// interpreter's lock.
void for_each_frame(const std::function<bool(const PythonFrame&)>& visit);

// Calls `act` with the interpreter's lock, which the caller does not hold; not at all where there
// is no interpreter.
void with_interpreter(const std::function<void()>& act);

}  // namespace gradsync::paper

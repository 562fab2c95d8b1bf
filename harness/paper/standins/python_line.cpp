#include "harness/paper/standins/python_line.h"

#include "harness/paper/standins/python_frames.h"

namespace gradsync::paper {
namespace {

// Neither torch's nor gradsync's own hook, nor code that has no file.
bool is_the_jobs(std::string_view file) {
  return file.find("/torch/") == std::string_view::npos &&
         file.find("/gradsync_watch_") == std::string_view::npos && !file.starts_with('<');
}

}  // namespace

std::string line_of_python() {
  std::string line;
  with_interpreter([&] {
    for_each_frame([&](const PythonFrame& frame) {
      const std::string_view file = frame.file();
      if (!is_the_jobs(file)) return true;
      line = std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(frame.line());
      return false;
    });
  });
  return line;
}

}  // namespace gradsync::paper

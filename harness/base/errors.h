// The few exception types of the suite, and the exit statuses of the program.
//
// The idea: the type says who can act on it. ConfigError: the user, by changing a file or a flag.
// EnvironmentError: the user, by changing the machine. CommError: no one, a peer is gone.
// OutOfMemory is a result, not an error. InternalError is a bug here. Libraries throw; only the
// program's main turns an exception into an exit status.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace gradsync {

// Exit statuses of `gradsync`; where several hold, the first of 2, 4, 1, 5, 3, 0 in this order.
enum class ExitStatus : int {
  Ok = 0,
  Regression = 1,
  Config = 2,
  Undecided = 3,
  Unfit = 4,
  Failed = 5,
  Internal = 70,
  Interrupted = 130,
};

// Something the user wrote is wrong. The message reads "FILE: field 'FIELD': got G, expected E".
class ConfigError : public std::runtime_error {
 public:
  ConfigError(const std::string& file, const std::string& field, const std::string& got,
              const std::string& expected);
  explicit ConfigError(const std::string& sentence) : std::runtime_error(sentence) {}
};

// The machine cannot do what was asked. The message says what is missing and the remedy.
class EnvironmentError : public std::runtime_error {
 public:
  EnvironmentError(const std::string& what_is_wrong, const std::string& remedy);
  explicit EnvironmentError(const std::string& sentence)
      : std::runtime_error(sentence), problem_(sentence) {}

  // The same of what `gradsync doctor` looks at: the message ends by saying so.
  static EnvironmentError seen_by_doctor(const std::string& what_is_wrong,
                                         const std::string& remedy);

  const std::string& problem() const { return problem_; }  // without the remedy

 private:
  std::string problem_;
};

// A collective failed: a peer died, or the deadline passed (`timed_out`). The process group must
// then be dropped.
class CommError : public std::runtime_error {
 public:
  explicit CommError(const std::string& what, bool timed_out = false)
      : std::runtime_error(what), timed_out_(timed_out) {}
  bool timed_out() const { return timed_out_; }

 private:
  bool timed_out_;
};

// Results could not be written (disk full, directory taken away). Exit status 5.
class ResultsError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A check failed that no input can make fail: a bug. Exit status 70.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Returns the status that an exception stands for; Internal for one that is none of these.
ExitStatus exit_status_of(const std::exception& error);

// Throws InternalError naming both values. Always on. Never for user input.
[[noreturn]] void fail_check(const char* expression, const std::string& left,
                             const std::string& right, const char* file, int line);

}  // namespace gradsync

// GRADSYNC_CHECK(a, ==, b): an internal check that prints both values when it fails.
#define GRADSYNC_CHECK(left, op, right)                                                    \
  do {                                                                                     \
    const auto& gradsync_left = (left);                                                    \
    const auto& gradsync_right = (right);                                                  \
    if (!(gradsync_left op gradsync_right)) {                                              \
      ::gradsync::fail_check(#left " " #op " " #right, ::gradsync::to_text(gradsync_left), \
                             ::gradsync::to_text(gradsync_right), __FILE__, __LINE__);     \
    }                                                                                      \
  } while (false)

namespace gradsync {
inline std::string to_text(const std::string& value) {
  return value;
}
inline std::string to_text(const char* value) {
  return value;
}
inline std::string to_text(bool value) {
  return value ? "true" : "false";
}
template <typename Number>
std::string to_text(Number value) {
  return std::to_string(value);
}
}  // namespace gradsync

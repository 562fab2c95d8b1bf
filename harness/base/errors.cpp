#include "harness/base/errors.h"

#include <fmt/format.h>

namespace gradsync {
namespace {

template <typename Type>
bool is(const std::exception& error) {
  return dynamic_cast<const Type*>(&error) != nullptr;
}

}  // namespace

ConfigError::ConfigError(const std::string& file, const std::string& field, const std::string& got,
                         const std::string& expected)
    : std::runtime_error(
          fmt::format("{}: field '{}': got {}, expected {}", file, field, got, expected)) {}

EnvironmentError::EnvironmentError(const std::string& what_is_wrong, const std::string& remedy)
    : std::runtime_error(remedy.empty() ? what_is_wrong
                                        : fmt::format("{} ({})", what_is_wrong, remedy)),
      problem_(what_is_wrong) {}

EnvironmentError EnvironmentError::seen_by_doctor(const std::string& what_is_wrong,
                                                  const std::string& remedy) {
  return {what_is_wrong, remedy + "; gradsync doctor says what this machine lacks"};
}

ExitStatus exit_status_of(const std::exception& error) {
  if (is<ConfigError>(error)) return ExitStatus::Config;
  if (is<EnvironmentError>(error)) return ExitStatus::Unfit;
  if (is<ResultsError>(error) || is<CommError>(error)) return ExitStatus::Failed;
  return ExitStatus::Internal;
}

void fail_check(const char* expression, const std::string& left, const std::string& right,
                const char* file, int line) {
  throw InternalError(fmt::format("internal check failed: {} with {} and {} ({}:{}); this is a bug",
                                  expression, left, right, file, line));
}

}  // namespace gradsync

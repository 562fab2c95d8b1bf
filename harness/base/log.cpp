#include "harness/base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

namespace gradsync::log {
namespace {

// "warn: " and "error: " before the message, nothing before an info.
class LevelWord : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const char* word = message.level == spdlog::level::warn  ? "warn: "
                       : message.level == spdlog::level::err ? "error: "
                                                             : "";
    fmt::format_to(fmt::appender(out), "{}", word);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<LevelWord>();
  }
};

void set_pattern() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<LevelWord>('*').set_pattern("%^%*%$%v");
  spdlog::set_formatter(std::move(formatter));
}

}  // namespace

void configure(bool quiet) {
  const bool colour = isatty(STDERR_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
      colour ? spdlog::color_mode::always : spdlog::color_mode::never);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("gradsync", sink));
  spdlog::set_level(quiet ? spdlog::level::err : spdlog::level::info);
  set_pattern();
}

void info(const std::string& message) {
  spdlog::info("{}", message);
}
void warn(const std::string& message) {
  spdlog::warn("{}", message);
}
void error(const std::string& message) {
  spdlog::error("{}", message);
}

}  // namespace gradsync::log

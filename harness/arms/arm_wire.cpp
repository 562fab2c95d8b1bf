#include "harness/arms/arm_wire.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string>

#include "harness/arms/arm_protocol.h"
#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "harness/coordinate/watched_group.h"
#include "harness/session/interrupt.h"

namespace gradsync::arms {

using nlohmann::json;

ArmWire::ArmWire() : output_(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)) {
  if (!output_ || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    throw EnvironmentError("standard output or standard error is closed", "start it with both");
  }
  std::signal(SIGPIPE, SIG_IGN);  // a reader that is gone is seen by the write
}

std::optional<json> ArmWire::next() {
  std::optional<std::string> line = lines_.next();
  while (!line) {
    if (!read()) return std::nullopt;
    line = lines_.next();
  }
  quiet_since_ns_ = steady_clock().now_ns();
  try {
    return parse_json(*line);
  } catch (const json::exception&) {
    throw ConfigError(
        fmt::format("request: got '{}', expected a JSON object on one line", line->substr(0, 200)));
  }
}

bool ArmWire::read() {
  if (session::interrupt_flag()) throw coordinate::Interrupted();
  // A signal that comes just before the wait is seen after it.
  constexpr int kLongestWaitMs = 1000;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (::poll(&input, 1, kLongestWaitMs) <= 0) return true;
  std::array<char, 4096> bytes;
  const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  lines_.append({bytes.data(), static_cast<std::size_t>(count)});
  return count > 0;
}

void ArmWire::send(const json& message) {
  const std::string line = message.dump() + "\n";
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t count = ::write(output_.get(), line.data() + sent, line.size() - sent);
    if (session::interrupt_flag()) throw coordinate::Interrupted();
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw ReaderGone();
    sent += static_cast<std::size_t>(count);
  }
  quiet_since_ns_ = steady_clock().now_ns();
}

void ArmWire::beat() {
  if (seconds(steady_clock().now_ns() - quiet_since_ns_) >= kBusyS) send(to_json(ArmBusy{}));
}

}  // namespace gradsync::arms

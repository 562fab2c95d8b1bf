#include "harness/launch/control_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "harness/base/clock.h"
#include "harness/base/errors.h"

namespace gradsync::launch {

using nlohmann::json;

namespace {

constexpr const char* kRemedy =
    "start ranks through 'gradsync run', and see the launcher's messages";

std::string environment(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value == nullptr ? fallback : value;
}

int environment_int(const char* name, int fallback) {
  const std::string text = environment(name, std::to_string(fallback));
  int value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size() || value < 0) {
    throw ConfigError(
        fmt::format("environment variable {}: got '{}', expected a number from 0", name, text));
  }
  return value;
}

int inherited_fd(const char* name) {
  if (std::getenv(name) == nullptr) {
    throw EnvironmentError(fmt::format("{} is unset: no launcher started this process", name),
                           kRemedy);
  }
  return environment_int(name, 0);
}

}  // namespace

ControlChannel::ControlChannel()
    : fd_(inherited_fd("GRADSYNC_CONTROL_FD")),
      progress_(map_rank_progress(inherited_fd("GRADSYNC_PROGRESS_FD"))) {}

void ControlChannel::send(const json& message) {
  const std::string line = message.dump() + "\n";
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t count = ::send(fd_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw EnvironmentError(fmt::format("the launcher is gone: {}", std::strerror(errno)),
                             kRemedy);
    }
    sent += static_cast<std::size_t>(count);
  }
}

json ControlChannel::receive(double timeout_s) {
  const std::int64_t deadline_ns = steady_clock().now_ns() + nanoseconds(timeout_s);
  std::array<char, 65536> bytes;
  for (;;) {
    if (const auto line = lines_.next()) return json::parse(*line);
    const std::int64_t left_ns = deadline_ns - steady_clock().now_ns();
    if (left_ns <= 0) {
      throw EnvironmentError(fmt::format("the launcher said nothing for {} s", timeout_s), kRemedy);
    }
    pollfd wait{fd_, POLLIN, 0};
    const auto left_ms = std::min<std::int64_t>(left_ns / 1'000'000 + 1, 60'000);
    if (::poll(&wait, 1, static_cast<int>(left_ms)) <= 0) continue;
    const ssize_t count = ::recv(fd_, bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw EnvironmentError("the launcher closed the control channel", kRemedy);
    lines_.append({bytes.data(), static_cast<std::size_t>(count)});
  }
}

RankPlace rank_place_from_environment() {
  RankPlace place;
  place.rank = environment_int("RANK", place.rank);
  place.local_rank = environment_int("LOCAL_RANK", place.local_rank);
  place.world_size = environment_int("WORLD_SIZE", place.world_size);
  place.node = environment_int("GROUP_RANK", place.node);
  place.address = environment("GRADSYNC_ADDRESS", place.address);
  place.interface = environment("GRADSYNC_INTERFACE", place.interface);
  place.master_address = environment("MASTER_ADDR", place.master_address);
  if (place.rank >= place.world_size) {
    throw ConfigError(
        fmt::format("environment variable RANK: got {}, expected less than WORLD_SIZE {}",
                    place.rank, place.world_size));
  }
  return place;
}

}  // namespace gradsync::launch

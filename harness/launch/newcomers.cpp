#include "harness/launch/newcomers.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/launch/tcp.h"

namespace gradsync::launch {
namespace {

constexpr double kHelloS = 5;                // a task says hello at once
constexpr std::size_t kMostSilent = 256;     // of more, who came first is given up
constexpr std::size_t kMostHello = 1 << 22;  // bytes; a plan is in it

// Nothing: a stranger.
std::optional<Hello> hello_from(const std::vector<nlohmann::json>& lines, const std::string& from) {
  if (lines.empty()) return std::nullopt;
  try {
    AgentMessage said = agent_message(lines.front(), from);
    if (auto* hello = std::get_if<Hello>(&said)) return std::move(*hello);
  } catch (const InternalError&) {
  }
  return std::nullopt;
}

}  // namespace

int Newcomers::port() const {
  return bound_port(listener_.get());
}

std::optional<Newcomer> Newcomers::next(double timeout_s) {
  const std::int64_t deadline_ns = steady_clock().now_ns() + nanoseconds(timeout_s);
  do {
    wait(deadline_ns);
    accept();
    if (auto newcomer = heard()) return newcomer;
  } while (steady_clock().now_ns() < deadline_ns);
  return std::nullopt;
}

// Until somebody comes or says something, or must be given up.
void Newcomers::wait(std::int64_t deadline_ns) {
  std::vector<pollfd> waits{{listener_.get(), POLLIN, 0}};
  for (const Silent& one : silent_) {
    waits.push_back({one.lines.fd(), POLLIN, 0});
    deadline_ns = std::min(deadline_ns, one.until_ns);
  }
  const double left_s = std::max(0.0, seconds(deadline_ns - steady_clock().now_ns()));
  ::poll(waits.data(), waits.size(), static_cast<int>(left_s * 1e3) + 1);
}

void Newcomers::accept() {
  while (UniqueFd connection = accept_within(listener_.get(), 0)) {
    const Reach reach{own_address(connection.get()), peer_address(connection.get()), ""};
    JsonLines lines(std::move(connection), fmt::format("a task at {}", reach.from), kMostHello);
    silent_.push_back({std::move(lines), reach, steady_clock().now_ns() + nanoseconds(kHelloS)});
    if (silent_.size() > kMostSilent) silent_.erase(silent_.begin());
  }
}

std::optional<Newcomer> Newcomers::heard() {
  for (auto one = silent_.begin(); one != silent_.end();) {
    const std::vector<nlohmann::json> lines = one->lines.read_or_close();
    if (lines.empty() && one->lines.is_open() && steady_clock().now_ns() < one->until_ns) {
      ++one;
      continue;
    }
    Silent speaker = std::move(*one);
    one = silent_.erase(one);
    auto hello = hello_from(lines, speaker.reach.from);
    if (!hello) continue;
    speaker.reach.chosen = hello->address;
    speaker.lines.allow_any_length();
    return Newcomer{std::move(*hello), speaker.reach, std::move(speaker.lines)};
  }
  return std::nullopt;
}

}  // namespace gradsync::launch

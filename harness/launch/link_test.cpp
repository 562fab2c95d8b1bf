#include "harness/launch/link_test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <limits>
#include <optional>
#include <vector>

#include "harness/base/clock.h"
#include "harness/base/errors.h"

namespace gradsync::launch {

namespace {

// Everything up to measure_link() runs in forked children: system calls only, no allocation.

constexpr int kTestPings = 200;
constexpr int kBursts = 3;
constexpr double kIdleSeconds = 0.05;
constexpr double kTestBurstSeconds = 0.05;
constexpr double kPatienceSeconds = 20;  // for what should take milliseconds, on a busy machine too
constexpr std::size_t kChunk = 262144;

std::int64_t now_ns() {
  return steady_clock().now_ns();
}

struct Buffer {
  char* data;
  std::size_t size;
};

bool send_bytes(int socket, Buffer buffer, std::size_t count) {
  while (count > 0) {
    const ssize_t sent = ::send(socket, buffer.data, std::min(count, buffer.size), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    count -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_bytes(int socket, Buffer buffer, std::size_t count) {
  while (count > 0) {
    const ssize_t got = ::recv(socket, buffer.data, std::min(count, buffer.size), 0);
    if (got <= 0) return false;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

// Payload that the line carries in `duration_s`.
std::size_t payload_bytes(const LinkTest& test, double duration_s) {
  return static_cast<std::size_t>(test.payload_bits_per_s / 8 * duration_s);
}

// A burst after idle time, when the receiver asks for it. Its first bytes are the time before them.
bool send_burst(int socket, Buffer buffer, std::size_t size) {
  if (!receive_bytes(socket, buffer, 1)) return false;
  steady_clock().sleep_until_ns(now_ns() + nanoseconds(kIdleSeconds));
  std::int64_t start_ns = now_ns();
  return send_bytes(socket, {reinterpret_cast<char*>(&start_ns), sizeof start_ns},
                    sizeof start_ns) &&
         send_bytes(socket, buffer, size);
}

// Returns the seconds from before the burst's first byte was sent until its last was here; what
// holds either process up makes them more and never fewer. Nothing where the connection failed.
std::optional<double> receive_burst(int socket, Buffer buffer, std::size_t size) {
  std::int64_t start_ns = 0;
  if (!send_bytes(socket, buffer, 1) ||
      !receive_bytes(socket, {reinterpret_cast<char*>(&start_ns), sizeof start_ns},
                     sizeof start_ns) ||
      !receive_bytes(socket, buffer, size)) {
    return std::nullopt;
  }
  return seconds(now_ns() - start_ns);
}

// Sender and receiver take the same steps in the same order; the receiver writes the measurement.
int run_sender(int socket, const LinkTest& test, Buffer buffer) {
  for (int i = 0; i < kTestPings; ++i) {
    if (!receive_bytes(socket, buffer, 1) || !send_bytes(socket, buffer, 1)) return 1;
  }
  for (int i = 0; i < kBursts; ++i) {
    if (!send_burst(socket, buffer, payload_bytes(test, kTestBurstSeconds))) return 1;
  }
  return send_burst(socket, buffer, payload_bytes(test, test.duration_s)) ? 0 : 1;
}

bool measure_round_trip(int socket, Buffer buffer, LinkMeasurement& result) {
  result.round_trip_s = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTestPings; ++i) {
    const std::int64_t start_ns = now_ns();
    if (!send_bytes(socket, buffer, 1) || !receive_bytes(socket, buffer, 1)) return false;
    result.round_trip_s = std::min(result.round_trip_s, seconds(now_ns() - start_ns));
  }
  return true;
}

// The free bytes of a burst: what arrived, less what the rate explains. Whatever delays a burst
// hides some of them, so the largest counts.
bool measure_bursts(int socket, const LinkTest& test, Buffer buffer, LinkMeasurement& result) {
  const std::size_t size = payload_bytes(test, kTestBurstSeconds);
  result.free_burst_bytes = -std::numeric_limits<double>::infinity();
  for (int i = 0; i < kBursts; ++i) {
    const auto took_s = receive_burst(socket, buffer, size);
    if (!took_s) return false;
    const double explained = *took_s * test.payload_bits_per_s / 8;
    result.free_burst_bytes =
        std::max(result.free_burst_bytes, static_cast<double>(size) - explained);
  }
  return true;
}

// A burst so long that what it begins with for free, now known, is little of it.
bool measure_stream(int socket, const LinkTest& test, Buffer buffer, LinkMeasurement& result) {
  const std::size_t size = payload_bytes(test, test.duration_s);
  const auto took_s = receive_burst(socket, buffer, size);
  if (!took_s) return false;
  const double paid_bytes = static_cast<double>(size) - std::max(0.0, result.free_burst_bytes);
  result.payload_bits_per_s = paid_bytes * 8 / *took_s;
  return true;
}

void set_patience(int socket) {
  const timeval patience{static_cast<time_t>(kPatienceSeconds), 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

int sender_child(const LinkTest& test, sockaddr_in address, int port_pipe, Buffer buffer) {
  if (::read(port_pipe, &address.sin_port, sizeof address.sin_port) != sizeof address.sin_port) {
    return 1;
  }
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  set_patience(socket);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return 2;
  return run_sender(socket, test, buffer);
}

int receiver_child(const LinkTest& test, sockaddr_in address, int port_pipe, int result_pipe,
                   Buffer buffer) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t size = sizeof address;
  set_patience(listener);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0) return 3;
  if (::listen(listener, 1) != 0) return 3;
  if (::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 3;
  if (::write(port_pipe, &address.sin_port, sizeof address.sin_port) < 0) return 3;
  const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket < 0) return 4;
  set_patience(socket);
  LinkMeasurement result;
  socklen_t name_size = sizeof result.congestion_control;
  ::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, result.congestion_control, &name_size);
  if (!measure_round_trip(socket, buffer, result)) return 5;
  if (!measure_bursts(socket, test, buffer, result)) return 6;
  if (!measure_stream(socket, test, buffer, result)) return 7;
  return ::write(result_pipe, &result, sizeof result) == sizeof result ? 0 : 8;
}

struct Pipe {
  UniqueFd out;
  UniqueFd in;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw EnvironmentError("no pipe can be made", "raise the limit of open files (ulimit -n)");
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

LinkMeasurement measure_link(const NamespaceSet& namespaces, const LinkTest& test) {
  Pipe port = make_pipe();
  Pipe result_of = make_pipe();
  std::vector<char> bytes(kChunk);
  const Buffer buffer{bytes.data(), bytes.size()};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, test.address.c_str(), &address.sin_addr);

  const pid_t receiver = namespaces.fork_inside(test.receiver, [&] {
    return receiver_child(test, address, port.in.get(), result_of.in.get(), buffer);
  });
  port.in.reset();
  result_of.in.reset();
  const pid_t sender = namespaces.fork_inside(
      test.sender, [&] { return sender_child(test, address, port.out.get(), buffer); });

  // The result, or the end of the pipe when the receiver gave up. The deadline is for hangs alone.
  pollfd wait{result_of.out.get(), POLLIN, 0};
  const int ready =
      ::poll(&wait, 1, static_cast<int>((test.duration_s + 6 * kPatienceSeconds) * 1e3));
  LinkMeasurement result;
  const bool complete =
      ready > 0 && ::read(result_of.out.get(), &result, sizeof result) == sizeof result;
  if (!complete) {
    ::kill(sender, SIGKILL);
    if (ready <= 0) ::kill(receiver, SIGKILL);
  }
  const int sender_code = wait_for_exit(sender);
  const int receiver_code = wait_for_exit(receiver);
  if (!complete) {
    throw EnvironmentError(
        fmt::format(
            "the link self-test failed between the first two nodes (sender {}, receiver {})",
            sender_code, receiver_code),
        "see 'gradsync doctor'; a firewall that filters bridges (br_netfilter) is the usual cause");
  }
  return result;
}

}  // namespace gradsync::launch

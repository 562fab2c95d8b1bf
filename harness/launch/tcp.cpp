#include "harness/launch/tcp.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "harness/base/clock.h"
#include "harness/base/errors.h"

namespace gradsync::launch {
namespace {

constexpr double kRetryS = 0.1;

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

// Control messages are small and urgent.
void prepare(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  end_when_lost(fd, kLostAfterS);
}

std::string numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  if (::getnameinfo(address, size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  const std::string text = host.data();
  // An IPv4 peer of an IPv6 socket.
  return text.starts_with("::ffff:") ? text.substr(7) : text;
}

using Lookup = int (*)(int, sockaddr*, socklen_t*);
std::string address_of(int fd, Lookup lookup) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  return lookup(fd, address, &size) == 0 ? numeric(address, size) : "";
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;
Addresses resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    throw EnvironmentError(
        fmt::format("the host '{}' (MASTER_ADDR) has no address: {}", host, ::gai_strerror(error)),
        "set MASTER_ADDR to a name or address that this host can reach");
  }
  return {found, &::freeaddrinfo};
}

bool wait_for(int fd, short event, double timeout_s) {
  pollfd wait{fd, event, 0};
  return ::poll(&wait, 1, static_cast<int>(std::max(0.0, timeout_s) * 1e3)) > 0;
}

// Returns the connection, or an empty one and `error`.
UniqueFd try_connect(const addrinfo& address, double timeout_s, int& error) {
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  error = 0;
  if (fd && ::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return fd;
  error = errno;
  if (fd && error == EINPROGRESS) {
    if (!wait_for(fd.get(), POLLOUT, timeout_s)) {
      error = ETIMEDOUT;
      return {};
    }
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return fd;
  }
  return {};
}

struct InterfaceAddress {
  std::string interface;
  std::string address;  // numeric
  bool is_ipv4 = true;
};

std::vector<InterfaceAddress> interface_addresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const bool six = one->ifa_addr->sa_family == AF_INET6;
    if (!six && one->ifa_addr->sa_family != AF_INET) continue;
    const socklen_t size = six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    found.push_back({one->ifa_name, numeric(one->ifa_addr, size), !six});
  }
  return found;
}

}  // namespace

// Where something is unanswered the user timeout ends it; where nothing is, probes are sent first.
// Source: tcp(7); with a user timeout the number of probes does not count.
void end_when_lost(int fd, double seconds) {
  const int within_s = std::max(2, static_cast<int>(seconds));
  const int probe_s = std::max(1, within_s / 4);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, probe_s);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, probe_s);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (within_s - probe_s) * 1000);
}

UniqueFd listen_on(int port) {
  UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = any6.sin6_port;
  int failed = 0;
  if (fd) {
    set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    failed = ::bind(fd.get(), reinterpret_cast<sockaddr*>(&any6), sizeof any6);
  }
  if (!fd || (failed != 0 && errno != EADDRINUSE)) {  // a host without IPv6
    fd = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    failed = ::bind(fd.get(), reinterpret_cast<sockaddr*>(&any4), sizeof any4);
  }
  if (failed != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    throw EnvironmentError(
        fmt::format("port {} (MASTER_PORT) cannot be opened: {}", port, std::strerror(errno)),
        "set MASTER_PORT to a free port, the same for every task, or end what holds this one");
  }
  return fd;
}

int bound_port(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size);
  // Both families keep the port in the same place.
  return ntohs(reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
}

UniqueFd connect_to(const std::string& host, int port, double timeout_s) {
  const Addresses addresses = resolve(host, port);
  const std::int64_t deadline_ns = steady_clock().now_ns() + nanoseconds(timeout_s);
  int error = ETIMEDOUT;
  for (;;) {
    for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
      const double left_s = seconds(deadline_ns - steady_clock().now_ns());
      UniqueFd fd = try_connect(*one, left_s, error);
      if (!fd) continue;
      prepare(fd.get());
      return fd;
    }
    const std::int64_t now_ns = steady_clock().now_ns();
    if (now_ns >= deadline_ns) break;
    steady_clock().sleep_until_ns(std::min(deadline_ns, now_ns + nanoseconds(kRetryS)));
  }
  throw EnvironmentError(
      fmt::format("task 0 does not answer at {}:{} (MASTER_ADDR, MASTER_PORT) within {} s: {}",
                  host, port, timeout_s, std::strerror(error)),
      "start every task, and let that port through");
}

UniqueFd accept_within(int listener, double timeout_s) {
  if (!wait_for(listener, POLLIN, timeout_s)) return {};
  UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd) prepare(fd.get());
  return fd;
}

std::string own_address(int fd) {
  return address_of(fd, &::getsockname);
}

std::string peer_address(int fd) {
  return address_of(fd, &::getpeername);
}

std::string address_of_interface(const std::string& interface) {
  std::string found;
  for (const InterfaceAddress& one : interface_addresses()) {
    if (one.interface != interface) continue;
    if (one.is_ipv4) return one.address;
    found = one.address;
  }
  return found;
}

std::vector<std::string> interface_names() {
  std::vector<std::string> names;
  struct if_nameindex* list = ::if_nameindex();
  if (list == nullptr) return names;
  const std::unique_ptr<struct if_nameindex, decltype(&::if_freenameindex)> owner(
      list, &::if_freenameindex);
  for (const struct if_nameindex* one = list; one->if_index != 0; ++one) {
    names.emplace_back(one->if_name);
  }
  return names;
}

}  // namespace gradsync::launch

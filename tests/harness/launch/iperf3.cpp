#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/launch/namespaces.h"
#include "in_child.h"
#include "kernel_links.h"

namespace gradsync::launch {

namespace {

using nlohmann::json;

// Starts iperf3 in the network of `rank`; what it prints goes to the file.
pid_t start(const Fabric& fabric, int rank, int output, std::vector<const char*> arguments) {
  const std::string program = find_program("iperf3");
  arguments.insert(arguments.begin(), "iperf3");
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    if (fabric.enter(rank) != 0 || ::dup2(output, 1) < 0 || ::dup2(output, 2) < 0) ::_exit(1);
    ::execv(program.c_str(), const_cast<char**>(arguments.data()));
    ::_exit(1);
  }
  return child;
}

std::string content(int file) {
  std::string text(static_cast<std::size_t>(::lseek(file, 0, SEEK_END)), '\0');
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

}  // namespace

double iperf3_bits_per_s(const Fabric& fabric) {
  const UniqueFd of_server(::memfd_create("iperf3_server", MFD_CLOEXEC));
  const std::string address = fabric.endpoint(0).address;
  const pid_t server = start(fabric, 0, of_server.get(), {"-s", "-1"});
  // Until the server listens, a client ends at once, and not always with an error.
  const json::json_pointer received("/end/sum_received/bits_per_second");
  std::string said;
  json report;
  const bool measured = eventually([&] {
    const UniqueFd of_client(::memfd_create("iperf3_client", MFD_CLOEXEC));
    wait_for_exit(start(fabric, 1, of_client.get(), {"-c", address.c_str(), "-t", "1", "-J"}));
    said = content(of_client.get());
    report = json::parse(said, nullptr, /*allow_exceptions=*/false);
    return report.is_object() && report.contains(received);
  });
  ::kill(server, SIGTERM);
  wait_for_exit(server);
  if (!measured) throw std::runtime_error("iperf3: " + said + content(of_server.get()));
  return report.at(received).get<double>();
}

}  // namespace gradsync::launch

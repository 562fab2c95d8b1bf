#include "kernel_links.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/launch/namespaces.h"
#include "in_child.h"

namespace gradsync::launch {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// File descriptors of namespaces of one kind, "net" or "user", by what /proc calls the namespace.
std::map<std::string, int> held_namespaces(const std::string& kind) {
  std::map<std::string, int> held;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry.path(), gone).string();
    if (target.starts_with(kind + ":[")) held[target] = std::stoi(entry.path().filename().string());
  }
  return held;
}

json printed_by(const std::string& command) {
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen");
  std::string text;
  std::array<char, 4096> bytes;
  for (std::size_t got = 0; (got = ::fread(bytes.data(), 1, bytes.size(), pipe)) > 0;) {
    text.append(bytes.data(), got);
  }
  if (::pclose(pipe) != 0) throw std::runtime_error(command + ": " + text);
  return json::parse(text);
}

// Runs in a child, which it moves.
std::string describe_network(int network, const std::map<std::string, int>& users) {
  for (const auto& [name, user] : users) {
    if (::setns(user, CLONE_NEWUSER) != 0) throw std::runtime_error("setns " + name);
  }
  if (::setns(network, CLONE_NEWNET) != 0) throw std::runtime_error("setns of a network");
  return json({{"devices", printed_by(find_program("ip") + " -json -details link show")},
               {"queues", printed_by(find_program("tc") + " -json qdisc show")}})
      .dump();
}

KernelLink link_of(const json& device, const json& queues) {
  KernelLink link;
  link.device = device.at("ifname");
  link.gso_max_bytes = device.value("gso_max_size", 0);
  for (const json& queue : queues) {
    const bool at_root = queue.value("root", false) && queue.at("dev") == link.device;
    const std::string kind = queue.at("kind");
    if (!at_root || kind == "noqueue") continue;
    link.shaping = kind;
    const json& options = queue.at("options");
    link.rate_bits_per_s = options.value("rate", 0.0) * 8;  // told in bytes
    link.burst_bytes = options.value("burst", 0.0);
    link.latency_s = options.value("lat", 0.0) * 1e-6;  // told in microseconds
  }
  return link;
}

}  // namespace

std::vector<KernelLink> kernel_links() {
  std::vector<KernelLink> links;
  const auto users = held_namespaces("user");
  for (const auto& [name, network] : held_namespaces("net")) {
    const std::string told = in_child([&] { return describe_network(network, users); });
    const json described = json::parse(told, nullptr, false);
    if (!described.is_object()) throw std::runtime_error(name + ": " + told);
    for (const json& device : described.at("devices")) {
      links.push_back(link_of(device, described.at("queues")));
    }
  }
  return links;
}

}  // namespace gradsync::launch

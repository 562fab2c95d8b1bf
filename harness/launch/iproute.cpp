// NamespaceSet::run_batch: iproute2 inside a namespace, and what its complaints mean.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "harness/base/errors.h"
#include "harness/launch/namespaces.h"
#include "harness/launch/program_output.h"

namespace gradsync::launch {

namespace {

// An unnamed file: as input or output of a program it can neither block nor fill up.
UniqueFd memory_file(const std::string& text) {
  UniqueFd fd(::memfd_create("gradsync_batch", MFD_CLOEXEC));
  if (!fd || ::pwrite(fd.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    throw EnvironmentError(fmt::format("no memory file can be made: {}", std::strerror(errno)),
                           "free memory, or raise the limit of open files (ulimit -n)");
  }
  return fd;
}

std::string said_in(const UniqueFd& file) {
  std::string text = content_of(file.get());
  std::ranges::replace(text, '\n', ';');
  return text;
}

const char* remedy_for(const std::string& program, const std::string& complaint) {
  const auto says = [&complaint](const char* words) {
    return complaint.find(words) != std::string::npos;
  };
  if (program == "tc" && (says("qdisc kind is unknown") || says("No such file"))) {
    return "load the kernel module: modprobe sch_tbf";
  }
  if (says("Unknown device type") || says("not supported")) {
    return "load the kernel modules: modprobe veth bridge";
  }
  if (says("not permitted")) return "run as root, or allow unprivileged user namespaces";
  return "install iproute2 6.0 or later, and see 'gradsync doctor'";
}

}  // namespace

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream directories(std::string(path == nullptr ? "" : path) + ":/usr/sbin:/sbin");
  for (std::string place; std::getline(directories, place, ':');) {
    if (place.empty()) continue;
    place += "/" + name;
    if (::access(place.c_str(), X_OK) == 0) return place;
  }
  return "";
}

void NamespaceSet::run_batch(int index, const std::string& program,
                             const std::string& batch) const {
  const std::string path = find_program(program);
  if (path.empty()) {
    throw EnvironmentError(fmt::format("the program '{}' is missing", program), "install iproute2");
  }
  const UniqueFd input = memory_file(batch);
  const UniqueFd output = memory_file("");
  const int code = wait_for_exit(fork_inside(index, [&] {
    for (const UniqueFd& network : networks_) ::fcntl(network.get(), F_SETFD, 0);
    if (::dup2(input.get(), 0) < 0 || ::dup2(output.get(), 1) < 0 || ::dup2(output.get(), 2) < 0) {
      return 126;
    }
    ::execl(path.c_str(), program.c_str(), "-batch", "-", nullptr);
    return 127;
  }));
  if (code != 0) {
    const std::string complaint = said_in(output);
    throw EnvironmentError(
        fmt::format("'{} -batch' failed inside a network namespace (exit status {}): {}", program,
                    code, complaint.empty() ? "it printed nothing" : complaint),
        remedy_for(program, complaint));
  }
}

}  // namespace gradsync::launch

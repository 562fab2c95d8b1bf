// Network namespaces without names, held by file descriptors, and things done inside them.
//
// A forked child unshares; this process keeps /proc/CHILD/ns/net open. Nothing is ever mounted or
// named, so the kernel frees all of it when the last process and descriptor are gone, however they
// end. Without privilege the child first makes a user namespace in which it is root.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness/launch/unique_fd.h"

namespace gradsync::launch {

class NamespaceSet {
 public:
  // Makes `count` network namespaces. Errors: EnvironmentError naming what forbids it.
  explicit NamespaceSet(int count);

  // Moves the calling process into namespace `index`. Async-signal-safe; the process must have one
  // thread if the set is in a user namespace. Returns 0 or an errno.
  int enter(int index) const;

  // Runs `body` in a child process inside namespace `index`; the child exits with what it returns.
  // `body` may only call async-signal-safe functions: other threads' locks stay locked in a child.
  // Returns the child's process id; the caller reaps it. Errors: EnvironmentError.
  pid_t fork_inside(int index, const std::function<int()>& body) const;

  // Runs a program of iproute2 ("ip" or "tc") inside namespace `index` on a batch of commands.
  // Blocks. Errors: EnvironmentError with the program's own words and the remedy.
  void run_batch(int index, const std::string& program, const std::string& batch) const;

  // Writes kernel settings, paths below /proc/sys, inside namespace `index`. Best effort: what the
  // kernel refuses (a read-only /proc/sys in containers) stays as it was.
  void write_settings(int index,
                      const std::vector<std::pair<std::string, std::string>>& settings) const;

  // The path by which a program started by run_batch() can name namespace `index`.
  std::string path(int index) const;

  bool through_user_namespace() const { return static_cast<bool>(user_); }

 private:
  void receive(int socket, pid_t child, int count);

  UniqueFd user_;  // unset where we are privileged
  std::vector<UniqueFd> networks_;
};

// Returns the exit code of the child `pid` once it ended; 128 + signal where one killed it.
int wait_for_exit(pid_t pid);

// Returns the path of a program, searched for in PATH and, since ordinary users' PATH lacks them,
// the sbin directories; "" where there is none.
std::string find_program(const std::string& name);

}  // namespace gradsync::launch

// What starting another program and waiting for its end takes everywhere. POSIX alone.
#pragma once

#include <spawn.h>
#include <sys/types.h>

#include <csignal>

#include <optional>
#include <string>
#include <vector>

namespace gradsync {

// Returns what posix_spawn and exec take for arguments or an environment: a pointer to each string,
// then null. `strings` must outlive it; who takes it changes none of them.
std::vector<char*> pointers_to(const std::vector<std::string>& strings);

// Another program, about to be started: its standard streams, group and signals are ours unless the
// calls below say else. Ranks alone are started otherwise, inside of a network
// (launch/rank_process.h).
class Spawn {
 public:
  explicit Spawn(std::vector<std::string> command);
  ~Spawn();
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  // "NAME=value" each; without a call, ours.
  Spawn& environment(std::vector<std::string> variables);
  // Its stream `fd` (STDIN_FILENO, ...) is the file `path`, opened with `flags` and made with 0644.
  Spawn& open(int fd, const std::string& path, int flags);
  // Its stream `fd` is our descriptor `source`, or its own stream of that number, if set before.
  Spawn& duplicate(int source, int fd);
  // Ctrl-C in the terminal reaches only its parent, and a signal can reach all that it starts.
  Spawn& in_own_group();
  Spawn& blocking(const sigset_t& signals);

  // Starts command[0], looked up in PATH where it has no slash. Returns 0 or an errno.
  int start(pid_t& pid);

 private:
  std::vector<std::string> command_;
  std::optional<std::vector<std::string>> environment_;
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
  short flags_ = 0;
};

// Returns waitpid's status once the child has ended; nothing where it has not within `timeout_s`.
std::optional<int> wait_for_end(pid_t pid, double timeout_s);

// "exited with status 3", "was killed by signal 9 (Killed)": such a status in words.
std::string describe_end(int wait_status);

}  // namespace gradsync

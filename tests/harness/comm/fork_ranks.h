// Ranks as forked processes that meet through a store in a file. For tests.
//
// Not threads: c10d keeps process-wide state (its flight recorder) that several process groups of
// one process corrupt.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace gradsync::test {

// Runs `life` in `world_size` forked processes and returns what each ended with, by rank: the value
// that it returned, or -1 where a signal ended it.
inline std::vector<int> fork_ranks(
    int world_size, const std::function<int(int rank, const std::string& store_file)>& life) {
  char store_file[] = "/tmp/gradsync_store_XXXXXX";
  close(mkstemp(store_file));
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (int rank = 0; rank < world_size; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      const int status = life(rank, store_file);
      std::fflush(nullptr);
      _exit(status);
    }
    children.push_back(child);
  }
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  std::remove(store_file);
  return codes;
}

}  // namespace gradsync::test

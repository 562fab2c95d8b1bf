// torchrun's own store, which listens at MASTER_ADDR:MASTER_PORT before any task runs: where the
// tasks of a job tell each other what cannot be known beforehand, such as a free port.
#pragma once

#include <string>

namespace gradsync::comm {

struct AgentStore {
  std::string host;
  int port = 0;
  double timeout_s = 60;

  // Errors: EnvironmentError where no store answers there.
  void set(const std::string& key, const std::string& value) const;

  // Blocks until another task has set `key`. Errors: EnvironmentError after timeout_s.
  std::string get(const std::string& key) const;
};

}  // namespace gradsync::comm

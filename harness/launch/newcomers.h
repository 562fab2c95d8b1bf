// Who comes to the leading task's port: the tasks of its job, and strangers.
//
// Anybody may connect to a port: a scanner, a monitor, a task of another job that was given the
// same one. A stranger says what is no hello, or nothing; it must not end the job, hold it up or
// make it grow. So newcomers are heard side by side, each for a few seconds and some of them at
// most, and what one says is read only up to a length and a depth.
#pragma once

#include <optional>
#include <vector>

#include "harness/launch/agent_messages.h"
#include "harness/launch/host_address.h"
#include "harness/launch/json_lines.h"
#include "harness/launch/unique_fd.h"

namespace gradsync::launch {

struct Newcomer {
  Hello hello;
  Reach reach;
  JsonLines lines;
};

class Newcomers {
 public:
  explicit Newcomers(UniqueFd listener) : listener_(std::move(listener)) {}

  // Returns the next newcomer that says hello; nothing where none does within `timeout_s`.
  std::optional<Newcomer> next(double timeout_s);
  int port() const;

 private:
  struct Silent {
    JsonLines lines;
    Reach reach;
    std::int64_t until_ns;  // then it is given up
  };

  void wait(std::int64_t deadline_ns);
  void accept();
  std::optional<Newcomer> heard();

  UniqueFd listener_;
  std::vector<Silent> silent_;  // in the order they came
};

}  // namespace gradsync::launch

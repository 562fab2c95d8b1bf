// Who comes to the leading task's port: the tasks of its job, and strangers.
//
// Anybody may connect to a port: a scanner, a monitor, a task of another job that was given the
// same one. A stranger says what is no hello, or nothing; it must not end the job, hold it up or
// make it grow. So newcomers are heard side by side, each for a few seconds and some of them at
// most, and what one says is read only up to a length and a depth.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/host_address.h"
#include "harness/launch/json_lines.h"
#include "harness/launch/unique_fd.h"

namespace gradsync::launch {

// A task's first words (agent.h).
struct Hello {
  int task = 0;
  std::string host;
  std::string machine;              // the same for tasks that run on one kernel
  std::string run_id;               // of the start of a job that it belongs to
  nlohmann::json identity;          // what must be the same for every task
  std::vector<int> cpus;            // that its ranks may use
  std::vector<int> cores;           // which core each of them is a hardware thread of
  std::optional<double> cpu_quota;  // in cores, of its control groups
  std::optional<std::int64_t> memory_available_bytes;
  std::string address;  // that was chosen for its ranks; "" where none was
};

nlohmann::json to_json(const Hello& hello);
// Returns nothing where `message` is no hello of a task.
std::optional<Hello> hello_from_json(const nlohmann::json& message);

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

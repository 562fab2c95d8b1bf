// One rank as a child process: how it is started, and the launcher's end of its control channel.
// LocalRanks (local_ranks.h) is the public face.
#pragma once

#include <sys/types.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/launch/fabric.h"
#include "harness/launch/json_lines.h"
#include "harness/launch/rank_progress.h"
#include "harness/launch/unique_fd.h"

namespace gradsync::launch {

// How to start one rank.
struct RankStart {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  // beside the launcher's own
  int cpu = -1;  // core to pin to; -1: leave the choice to the kernel
};

class RankProcess {
 public:
  // Starts the process in the network of `rank` and returns once its program runs. It dies with the
  // calling thread's process, so call this from a thread that outlives it.
  // Errors: EnvironmentError naming the step that failed.
  RankProcess(int rank, const Fabric& fabric, RankStart start);
  ~RankProcess();  // kills and reaps what still runs
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  // Never blocks: what the rank does not take now goes out with a later flush().
  void send(const nlohmann::json& message);
  void flush();
  bool wants_to_write() const { return running_ && control_.wants_to_write(); }

  // Returns the messages that have arrived. Never blocks. At the rank's end of the channel, closes
  // ours. Errors: InternalError where a complete line is no JSON object.
  std::vector<nlohmann::json> read_messages() { return control_.read(); }

  // Returns the wait status if the process has ended, and reaps it. Never blocks.
  std::optional<int> reap();

  void signal(int number) const;      // to the rank and whatever it started
  bool wait(double timeout_s) const;  // true: the process has ended (and is still to be reaped)

  bool running() const { return running_; }
  pid_t pid() const { return pid_; }
  int control_fd() const { return control_.fd(); }
  int pid_fd() const { return pid_fd_.get(); }
  const RankProgress& progress() const { return *progress_; }

 private:
  void stop();

  JsonLines control_;
  UniqueFd pid_fd_;
  std::shared_ptr<RankProgress> progress_;
  pid_t pid_ = -1;
  bool running_ = false;
};

}  // namespace gradsync::launch

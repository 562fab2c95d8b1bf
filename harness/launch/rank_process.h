// One rank as a child process: how it is started, and the launcher's end of its control channel.
// RankGroup (rank_group.h) is the public face.
#pragma once

#include <sys/types.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/launch/fabric.h"
#include "harness/launch/line_buffer.h"
#include "harness/launch/rank_page.h"
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
  void send(const std::string& line);
  void flush();
  bool wants_to_write() const { return running_ && control_ && sent_ < outgoing_.size(); }

  // Returns the messages that have arrived. Never blocks. At the rank's end of the channel, closes
  // ours. Errors: InternalError where a complete line is no JSON object.
  std::vector<nlohmann::json> read_messages();

  // Returns the wait status if the process has ended, and reaps it. Never blocks.
  std::optional<int> reap();

  void signal(int number) const;      // to the rank and whatever it started
  bool wait(double timeout_s) const;  // true: the process has ended (and is still to be reaped)

  bool running() const { return running_; }
  pid_t pid() const { return pid_; }
  int control_fd() const { return control_.get(); }
  int pid_fd() const { return pid_fd_.get(); }
  const RankPage& page() const { return *page_; }

 private:
  void stop();

  UniqueFd control_;
  UniqueFd pid_fd_;
  std::shared_ptr<RankPage> page_;
  pid_t pid_ = -1;
  bool running_ = false;
  LineBuffer incoming_;
  std::string outgoing_;
  std::size_t sent_ = 0;  // of outgoing_
};

}  // namespace gradsync::launch

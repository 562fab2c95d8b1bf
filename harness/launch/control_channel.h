// The rank's side of what the launcher gave it: its place among its peers, and the channel on which
// they talk (one JSON object per line, both ways).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/launch/line_buffer.h"
#include "harness/launch/rank_progress.h"

namespace gradsync::launch {

// The rank's end of the control channel, from GRADSYNC_CONTROL_FD and GRADSYNC_PROGRESS_FD. One per
// process, used by one thread at a time.
class ControlChannel {
 public:
  // Errors: EnvironmentError where this process was not started by a launcher.
  ControlChannel();

  // Blocks while the launcher is behind with reading. Errors: EnvironmentError when it is gone.
  void send(const nlohmann::json& message);
  // Blocks for the launcher's next line. Errors: EnvironmentError when the launcher is gone or
  // `timeout_s` passed.
  nlohmann::json receive(double timeout_s);
  RankProgress& progress() { return *progress_; }

 private:
  int fd_;
  RankProgress* progress_;
  LineBuffer lines_;
};

// The place of this process among its peers, as the launcher told it through the environment.
struct RankPlace {
  int rank = 0;
  int local_rank = 0;
  int world_size = 1;
  int node = 0;
  std::string address = "127.0.0.1";         // own address
  std::string interface;                     // of a network that was made for it; "": the host's
  std::string master_address = "127.0.0.1";  // rank 0's address
};

// Returns the place from RANK, LOCAL_RANK, WORLD_SIZE, GROUP_RANK, MASTER_ADDR, GRADSYNC_ADDRESS
// and GRADSYNC_INTERFACE; what is unset keeps the default, a world of one. Errors: ConfigError.
RankPlace rank_place_from_environment();

}  // namespace gradsync::launch

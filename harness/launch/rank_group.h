// The ranks of one launch as processes: started, watched, reaped.
//
// Each rank is a direct child, in its endpoint's network, pinned, with the environment of torchrun
// (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR), a control channel (a
// socket pair carrying one JSON object per line, both ways) and a RankPage. A rank dies with the
// launcher (PR_SET_PDEATHSIG) whatever it is doing; to the kernel that is the thread which started
// it, so a RankGroup is made by a thread that outlives it, best the main one. A rank has a process
// group of its own: Ctrl-C reaches only the launcher. Its output goes to the launcher's standard
// error.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/control_channel.h"
#include "harness/launch/fabric.h"
#include "harness/launch/rank_page.h"
#include "harness/launch/topology.h"

namespace gradsync::launch {

struct SpawnOptions {
  std::vector<std::string> command;  // argv of a rank; command[0] is the program's path
  std::vector<std::pair<std::string, std::string>> environment;  // beside the launcher's own
  bool pin = true;           // one core per rank, round robin over the cores we may use
  int threads_per_rank = 1;  // OMP_NUM_THREADS, MKL_NUM_THREADS
};

// What happened next in one of the ranks.
struct RankEvent {
  enum class Kind { Message, Exited, Killed };
  Kind kind = Kind::Message;
  int rank = 0;
  nlohmann::json message;  // Message
  int exit_code = 0;       // Exited
  int signal = 0;          // Killed
};

class RankGroup {
 public:
  // Starts every rank. Errors: EnvironmentError where a process cannot be started.
  RankGroup(const Topology& topology, const Fabric& fabric, const SpawnOptions& options);

  // Stops what still runs: SIGTERM, then SIGKILL after one second; reaps everything.
  ~RankGroup();

  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  // Waits for the next event of any rank until `timeout_s`; nothing: the time passed. A message
  // that a rank wrote before it died always comes before its Exited or Killed. Returns at once when
  // no rank runs any more. Errors: InternalError where a rank writes what is no JSON object.
  std::optional<RankEvent> next_event(double timeout_s);

  // Never blocks: what a busy rank does not take at once goes out during next_event().
  // Errors: none; a rank that is gone shows up as an event.
  void send(int rank, const nlohmann::json& message);
  void send_all(const nlohmann::json& message);

  const RankPage& page(int rank) const;
  // 'R', 'S', 'T' (stopped) ... from the kernel; 0 where the process is gone.
  char process_state(int rank) const;
  pid_t pid(int rank) const;
  int world_size() const;
  bool running(int rank) const;

  // "rank 1/4 node0", for messages; ranks from 0.
  std::string label(int rank) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradsync::launch

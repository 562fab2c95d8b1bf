// The ranks of one launch as the launcher sees them, wherever they run: events come from them,
// messages go to them, and shared memory says where each of them is. LocalRanks (local_ranks.h) are
// this process's children, RemoteRanks (agents.h) those of the tasks that an outside launcher
// started.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "harness/launch/rank_progress.h"
#include "harness/launch/topology.h"

namespace gradsync::launch {

// What happened next in one of the ranks.
struct RankEvent {
  enum class Kind { Message, Exited, Killed, Lost };
  Kind kind = Kind::Message;
  int rank = 0;
  nlohmann::json message;  // Message
  int exit_code = 0;       // Exited
  int signal = 0;          // Killed
  std::string lost;        // Lost, with the task that watched it: what became of that
};

class RankGroup {
 public:
  // Stops what still runs: SIGTERM, then SIGKILL after one second; reaps everything.
  virtual ~RankGroup() = default;
  RankGroup() = default;
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  // Waits for the next event of any rank until `timeout_s`; nothing: the time passed. A message
  // that a rank wrote before it died always comes before its Exited or Killed. Returns at once when
  // no rank runs any more. Errors: InternalError where a rank writes what is no JSON object.
  virtual std::optional<RankEvent> next_event(double timeout_s) = 0;

  // Never blocks: what a busy rank does not take at once goes out during next_event().
  // Errors: none; a rank that is gone shows up as an event.
  virtual void send(int rank, const nlohmann::json& message) = 0;

  // Its changed_ns is on this process's clock. A remote rank's is a fraction of a second old.
  virtual const RankProgress& progress(int rank) const = 0;
  // 'R', 'S', 'T' (stopped) ... from the kernel; 0 where the process is gone.
  virtual char process_state(int rank) const = 0;
  virtual bool running(int rank) const = 0;
  virtual const Topology& topology() const = 0;

  void send_all(const nlohmann::json& message) {
    for (int rank = 0; rank < size(); ++rank) send(rank, message);
  }
  int world_size() const { return topology().world_size(); }
  // How many of the world's ranks are here, from rank 0 on: all, or one that stands for them.
  virtual int size() const { return world_size(); }

  // "rank 1/4 node0", for messages; ranks from 0.
  std::string label(int rank) const;
};

}  // namespace gradsync::launch

// Reads what the watched processes of a job left, above all the files of the preloaded library
// (preload/event_file.h). They may be of processes that still run.
//
// What an Event says beyond event.h: in a Backward, `detail` is the number of leaves (parameters)
// whose gradients it reached, to accumulate or to return them; in a Collective, `detail` is the
// name of its process group and `object` a number made of it, the same on every rank. See
// nccl_events.h for calls of NCCL's that no operation of c10d's made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/watch/read/event.h"

namespace gradsync::watch {

// Returns the events of one file. One that was cut off gives what is whole, and a fault that says
// so.   Errors: ConfigError where the file is none of the watcher's, or one of another version.
RankEvents read_events(const std::string& path);

// What a job's folder holds.
struct WatchedFolder {
  std::vector<RankEvents> ranks;    // processes with events, by rank, then process id
  bool reached = false;             // the preloaded library was in some process of the job
  int torch_processes = 0;          // those in which it found torch
  std::vector<std::string> faults;  // of processes that it could not watch, a sentence each
};

// Reads all files in `directory`, those on NCCL (nccl_events.h) and those of the Python hook
// (hook_events.h) too. A process of which the hook alone knows is a fault: its collectives were not
// seen, which does not mean that there were none.   Errors: as read_events.
WatchedFolder read_folder(const std::string& directory);

// Returns why there is nothing to tell of it; "" where there is something.
std::string why_nothing_was_seen(const WatchedFolder& folder);

// Returns whether `directory` is the folder of a job that was watched.
bool is_watched_folder(const std::string& directory);

// Returns how many optimizer steps the rank with the most has begun. For a glance while the job
// runs: reads headers alone, and passes over what it cannot read.
std::int64_t optimizer_steps_so_far(const std::string& directory);

// Returns the most that the CPU tensors of a process held, of the one with the most; 0 where that
// is not counted. For a glance, too.
std::int64_t tensor_peak_so_far(const std::string& directory);

// Which rank a process is.
struct JobPlace {
  std::int64_t pid = 0;
  int rank = -1;       // -1: it has none so far
  int world_size = 0;  // 0: as above
  bool has_events = false;
};

// Returns the places of the processes with events, in the order of their files' names; as
// optimizer_steps_so_far() for a glance.
std::vector<JobPlace> places_so_far(const std::string& directory);

// Returns the faults of processes into which the preloaded library could not be loaded, a sentence
// each; for a glance, too.
std::vector<std::string> faults_so_far(const std::string& directory);

// A job on several hosts, each of which was watched into a folder of its own: put together as if
// one watcher had seen it (merged_hosts.cpp).

// Returns whether these folders are hosts of one job: several, with ranks of one world, of which
// none is in two of them. Two runs of a job both have its rank 0. Reads headers alone.
bool are_hosts_of_one_job(const std::vector<std::string>& folders);

// Returns the ranks of all of them, or of the only one, by rank. Times are of the clock of the host
// with the lowest one; how well others are known there stands in `clock_error_ns`, and in a fault
// for each host. Errors: as read_events().
std::vector<RankEvents> read_hosts(const std::vector<std::string>& folders);

}  // namespace gradsync::watch

// What the environment tells NCCL of paper. Read whenever a communicator is opened.
//
//   GRADSYNC_PAPER_DEADLINE_S  how long a rank waits for another (600)
//   GRADSYNC_PAPER_FOLDER      a folder that all ranks have, to meet in: for containers with
//   process
//                              namespaces of their own, on one machine
//   GRADSYNC_PAPER_WORLD, _REAL  ranks of the job, and how many of them exist: 0 to REAL-1
//   GRADSYNC_PAPER_NCCL        errors to inject, separated by ';':
//     never:rank=R,call=N        rank R never comes to its collective N: its call succeeds at once
//     async_error:rank=R,call=N  the same, and from then on its communicator has an async error
//     duplicate_gpu              opening a communicator fails as where two ranks have one GPU
//
// Ranks and calls are those of a communicator, calls from 1; a job with several communicators meets
// the error in each that has that rank and as many calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace gradsync::paper::nccl {

struct Injected {
  std::string name;  // "never", "async_error" or "duplicate_gpu"
  int rank = -1;
  std::uint64_t call = 0;
};

struct Settings {
  std::chrono::duration<double> deadline{600};
  int world = 0;  // 0: every rank exists
  int real = 0;
  std::vector<Injected> injected;

  // Returns whether `name` is to happen; the second, to this rank at this call.
  bool injects(const std::string& name) const;
  bool injects(const std::string& name, int rank, std::uint64_t call) const;
};

// Errors: Failure (ncclInvalidArgument) for what is not understood; stderr has it, too.
Settings read_settings();

}  // namespace gradsync::paper::nccl

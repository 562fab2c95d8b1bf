// A job for held_job_test.cpp: take_steps RANKS STEPS [END] forks so many ranks, and each takes so
// many optimizer steps as a watched process does, without torch. It says that 30 ns of each went
// into backward, 20 into what is between that and the optimizer, and 10 into the optimizer. END:
// "fail" prints an error and exits with 3, "orphan" leaves its ranks behind in sessions of their
// own, and of "late" every rank but the first one takes its time.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "harness/watch/inject/preload/hold.h"
#include "harness/watch/inject/preload/recorder.h"

namespace {

constinit gradsync::watch::Recorder recorder;
constinit gradsync::watch::Hold hold;

int take_steps(int rank, int ranks, int steps, useconds_t step_us) {
  const char* folder = std::getenv("GRADSYNC_WATCH_DIR");
  if (folder == nullptr) return 2;
  recorder.open(folder, "2.11.0");
  hold.open(folder);
  recorder.set_place(rank, ranks);
  for (int i = 0; i < steps; ++i) {
    ::usleep(step_us);
    recorder.count_optimizer_step();
    if (hold.step_ended({.backward_ns = 30, .between_ns = 20, .optimizer_ns = 10}) != nullptr)
      return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int ranks = std::atoi(argv[1]);
  const std::string_view end = argc > 3 ? argv[3] : "";
  for (int rank = 0; rank < ranks; ++rank) {
    if (::fork() != 0) continue;
    if (end == "orphan") ::setsid();
    constexpr useconds_t kLateUs = 20'000;
    return take_steps(rank, ranks, std::atoi(argv[2]), end == "late" && rank > 0 ? kLateUs : 0);
  }
  std::puts("all ranks run");
  if (end == "orphan") return 1;
  int failures = 0;
  for (int status = 0; ::wait(&status) > 0;) failures += status == 0 ? 0 : 1;
  if (end != "fail") return failures;
  std::puts("ValueError: no data\n  ==========");
  return 3;
}

#include "harness/launch/rank_progress.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "harness/base/errors.h"

namespace gradsync::launch {

namespace {

// Shared between processes, so they must be plain memory to the compiler too.
static_assert(std::atomic<std::int64_t>::is_always_lock_free);
static_assert(std::atomic<Activity>::is_always_lock_free);

const char* name_of(Activity activity) {
  switch (activity) {
    case Activity::Starting:
      return "starting";
    case Activity::Idle:
      return "idle";
    case Activity::Forward:
      return "forward";
    case Activity::Backward:
      return "backward";
    case Activity::Wait:
      return "waiting for communication";
    case Activity::Optimizer:
      return "optimizer";
    case Activity::Barrier:
      return "barrier";
  }
  return "unknown";
}

}  // namespace

std::string describe(const RankProgress& progress) {
  const Activity activity = progress.activity.load(std::memory_order_relaxed);
  if (activity == Activity::Starting) return "starting";
  const std::uint32_t started = progress.collective.load(std::memory_order_relaxed);
  const std::uint32_t completed = progress.completed.load(std::memory_order_relaxed);
  std::string text = fmt::format("step {}, micro-batch {}, {}", progress.step.load() + 1,
                                 progress.micro_batch.load() + 1, name_of(activity));
  if (started > completed) text += fmt::format(", in collective #{}", completed + 1);
  return text;
}

RankProgress* map_rank_progress(int fd) {
  void* memory = ::mmap(nullptr, sizeof(RankProgress), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    throw EnvironmentError(
        fmt::format("the launcher's shared memory (file descriptor {}) cannot be mapped: {}", fd,
                    std::strerror(errno)),
        "start ranks through 'gradsync run'");
  }
  return static_cast<RankProgress*>(memory);
}

}  // namespace gradsync::launch

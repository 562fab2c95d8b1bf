#include "harness/watch/hold/turns.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include "harness/base/errors.h"

namespace gradsync::watch {
namespace {

constexpr std::uint32_t kMostAllowed = kAnySteps - 1;

// Returns 0 or an errno. What is reserved cannot be missing in the middle of a step.
int reserve_and_lock(int fd) {
  const int error = ::posix_fallocate(fd, 0, sizeof(TurnsTable));
  if (error != 0) return error;
  return ::flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
}

}  // namespace

Turns::Turns(const std::string& directory) {
  const std::string path = directory + "/" + kTurnsFile;
  fd_ = launch::UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  int error = fd_ ? reserve_and_lock(fd_.get()) : errno;
  void* mapped = MAP_FAILED;
  if (error == 0) {
    mapped = ::mmap(nullptr, sizeof(TurnsTable), PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (mapped == MAP_FAILED) error = errno;
  }
  if (error != 0) {
    throw EnvironmentError(fmt::format("{} cannot be made: {}", path, std::strerror(error)),
                           "set TMPDIR to a folder with room that can be written");
  }
  table_ = static_cast<TurnsTable*>(mapped);
  std::memcpy(table_->magic, kTurnsMagic, kTurnsMagicBytes);
}

Turns::~Turns() {
  free();
  ::munmap(table_, sizeof(TurnsTable));
}

void Turns::allow(std::int64_t steps) {
  const auto allowed = static_cast<std::uint32_t>(std::min<std::int64_t>(steps, kMostAllowed));
  std::atomic_ref(table_->allowed).store(allowed, std::memory_order_release);
  ::syscall(SYS_futex, &table_->allowed, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Turns::free() {
  std::atomic_ref(table_->allowed).store(kAnySteps, std::memory_order_release);
  ::syscall(SYS_futex, &table_->allowed, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::vector<Turns::Taker> Turns::takers() const {
  std::vector<Taker> takers;
  for (std::size_t place = 0; place < kMostTakers; ++place) {
    const std::int64_t pid = std::atomic_ref(table_->takers[place].pid).load();
    if (pid != 0) takers.push_back({pid, ended_at(place), place});
  }
  return takers;
}

std::int64_t Turns::ended_at(std::size_t place) const {
  return std::atomic_ref(table_->takers[place].ended).load(std::memory_order_acquire);
}

std::vector<TakenStep> Turns::steps(const Taker& taker, std::int64_t first,
                                    std::int64_t count) const {
  GRADSYNC_CHECK(taker.place, <, kMostTakers);
  const std::int64_t ended = ended_at(taker.place);
  GRADSYNC_CHECK(first + count, <=, ended);
  GRADSYNC_CHECK(first + static_cast<std::int64_t>(kKeptSteps), >=, ended);
  std::vector<TakenStep> steps;
  for (std::int64_t step = first; step < first + count; ++step) {
    steps.push_back(table_->takers[taker.place].steps[static_cast<std::size_t>(step) % kKeptSteps]);
  }
  return steps;
}

std::uint32_t Turns::arrivals() const {
  return std::atomic_ref(table_->arrivals).load(std::memory_order_acquire);
}

void Turns::wait_for_arrival(std::uint32_t seen, double timeout_s) const {
  const auto ns = static_cast<long>(timeout_s * 1e9);
  const timespec timeout{ns / 1'000'000'000, ns % 1'000'000'000};
  ::syscall(SYS_futex, &table_->arrivals, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

}  // namespace gradsync::watch

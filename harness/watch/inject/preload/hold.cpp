#include "harness/watch/inject/preload/hold.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "harness/watch/inject/preload/inside.h"

namespace gradsync::watch {
namespace {

// How long a process may stay held after its holder died. Smaller: more wakes while it waits.
constexpr long kLookForHolderNs = 200'000'000;

// Returns false where nothing woke it in time.
bool wait_while(std::uint32_t* word, std::uint32_t value) {
  const timespec timeout{0, kLookForHolderNs};
  const long result = ::syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, nullptr, 0);
  return result == 0 || errno != ETIMEDOUT;
}

TurnsTable* map_table(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || status.st_size != sizeof(TurnsTable)) return nullptr;
  void* mapped = ::mmap(nullptr, sizeof(TurnsTable), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* table = static_cast<TurnsTable*>(mapped);
  if (std::memcmp(table->magic, kTurnsMagic, kTurnsMagicBytes) == 0) return table;
  ::munmap(mapped, sizeof(TurnsTable));
  return nullptr;
}

}  // namespace

void Hold::open(const char* directory) noexcept {
  std::snprintf(path_, sizeof path_, "%s/%s", directory, kTurnsFile);
}

const char* Hold::step_ended(const StepPhases& phases) noexcept {
  if (is_free_) return nullptr;
  const Locked locked(mutex_);
  if (is_free_) return nullptr;
  const char* fault = taker_ == nullptr ? join() : nullptr;
  if (taker_ == nullptr) {
    is_free_ = true;
    return fault;
  }
  note_step(phases);
  wait_for_turn();
  return nullptr;
}

// Leaves taker_ null where there are no turns to take or no place is left.
const char* Hold::join() noexcept {
  const int fd = ::open(path_, O_RDWR | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? nullptr : "it cannot take turns: their file cannot be read";
  table_ = map_table(fd);
  ::close(fd);
  if (table_ == nullptr) return "it cannot take turns: their file is none of this version";
  const std::uint32_t place = std::atomic_ref(table_->claimed).fetch_add(1);
  if (place >= kMostTakers) return "it cannot take turns: too many processes do";
  taker_ = &table_->takers[place];
  std::atomic_ref(taker_->pid).store(::getpid());
  return nullptr;
}

void Hold::note_step(const StepPhases& phases) noexcept {
  const std::int64_t now = now_ns();
  const std::int64_t ended = taker_->ended;
  taker_->steps[static_cast<std::size_t>(ended) % kKeptSteps] = {start_ns_, now, phases};
  start_ns_ = now;
  std::atomic_ref(taker_->ended).store(ended + 1, std::memory_order_release);
}

void Hold::wait_for_turn() noexcept {
  std::atomic_ref allowed(table_->allowed);
  std::uint32_t steps = allowed.load(std::memory_order_acquire);
  if (taker_->ended < steps) return;
  std::atomic_ref(table_->arrivals).fetch_add(1);
  ::syscall(SYS_futex, &table_->arrivals, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  while (taker_->ended >= steps) {
    if (!wait_while(&table_->allowed, steps) && holder_is_gone()) {
      is_free_ = true;
      ::kill(::getpid(), SIGTERM);
      return;
    }
    steps = allowed.load(std::memory_order_acquire);
  }
  start_ns_ = now_ns();
}

// It keeps the file locked, and takes it away in the end. A process that can open no file now, for
// want of descriptors or memory, knows nothing of its holder.
bool Hold::holder_is_gone() const noexcept {
  const int fd = ::open(path_, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT;
  const bool is_gone = ::flock(fd, LOCK_SH | LOCK_NB) == 0;
  ::close(fd);
  return is_gone;
}

// The parent's place stays its own.
void Hold::after_fork() noexcept {
  mutex_ = PTHREAD_MUTEX_INITIALIZER;
  is_free_ = false;
  table_ = nullptr;
  taker_ = nullptr;
  start_ns_ = 0;
}

}  // namespace gradsync::watch

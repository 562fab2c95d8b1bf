// What the files inside of a watched process share: its clock and its lock. No torch.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <ctime>

namespace gradsync::watch {

// Nanoseconds of CLOCK_MONOTONIC.
inline std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Holds a mutex of the C library's for a scope: std::mutex would bring the C++ library into
// processes that do without.
class Locked {
 public:
  explicit Locked(pthread_mutex_t& mutex) : mutex_(mutex) { ::pthread_mutex_lock(&mutex_); }
  ~Locked() { ::pthread_mutex_unlock(&mutex_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace gradsync::watch

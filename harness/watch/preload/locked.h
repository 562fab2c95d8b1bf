// Holds a mutex of the C library's for a scope: std::mutex would bring the C++ library into
// processes that do without.
#pragma once

#include <pthread.h>

namespace gradsync::watch {

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

#include "harness/watch/inject/preload/nccl_calls.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/watch/inject/preload/recorder.h"

namespace gradsync::watch {
namespace {

constinit Recorder recorder;
constinit bool is_watched = false;

void after_fork() {
  recorder.after_fork();
}

void open_file() {
  const char* directory = ::getenv("GRADSYNC_WATCH_DIR");
  if (directory == nullptr || *directory == '\0') return;
  is_watched = true;
  recorder.open(directory, "", kNcclFilePrefix);
  ::pthread_atfork(nullptr, nullptr, after_fork);
}

}  // namespace

bool nccl_is_watched() noexcept {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  ::pthread_once(&once, open_file);
  return is_watched;
}

void record_nccl_call(const NcclCall& call, std::string_view detail) noexcept {
  if (!nccl_is_watched()) return;
  recorder.begin({.name = call.name, .bytes = call.bytes, .object = call.object, .detail = detail});
}

void set_nccl_place(int rank, int ranks) noexcept {
  if (nccl_is_watched()) recorder.set_place(rank, ranks);
}

void record_nccl_fault(const char* sentence) noexcept {
  if (nccl_is_watched()) recorder.fault(sentence);
}

void record_undefined(const char* function) noexcept {
  char sentence[128];
  ::snprintf(sentence, sizeof sentence, "%s was called, but no library that is loaded has it",
             function);
  record_nccl_fault(sentence);
}

}  // namespace gradsync::watch

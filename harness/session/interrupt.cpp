#include "harness/session/interrupt.h"

#include <csignal>

#include "harness/coordinate/watched_group.h"

namespace gradsync::session {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free,
              "a signal handler may only touch such a flag");

void on_signal(int) {
  interrupted = true;
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the next one kills
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

const std::atomic<bool>& interrupt_flag() {
  return interrupted;
}

void throw_if_interrupted() {
  if (interrupted) throw coordinate::Interrupted();
}

}  // namespace gradsync::session

// Ctrl-C, SIGTERM and SIGHUP as a flag that the main loop polls: what is running is stopped and
// reaped, what is finished stays valid.
#pragma once

#include <atomic>

namespace gradsync::session {

// Installs the handlers. A second signal ends the program at once; its ranks die with it.
void catch_interrupts();
const std::atomic<bool>& interrupt_flag();

// Throws coordinate::Interrupted once a signal has come: what others call while they wait.
void throw_if_interrupted();

}  // namespace gradsync::session

// How every command that runs trials begins and ends its session.
#pragma once

#include <functional>
#include <memory>

#include "harness/session/session.h"

namespace gradsync::session {

// Warns of sources of noise on this machine or in this build.
void warn_about_this_host(const plan::Plan& plan);

// Examines the machine, warns of sources of noise, takes over Ctrl-C and opens a session. `agents`:
// those of an outside launcher; null: this process starts the ranks itself.
// Errors: as Session.
std::unique_ptr<Session> start_session(const RunOptions& options, const plan::Plan& plan,
                                       launch::Agents* agents);

// Calls `work`. Returns false if the user interrupted it. Passes on any other exception, with its
// exit status in result.json, if that can be written.
bool run_to_end(Session& session, const std::function<void()>& work);

}  // namespace gradsync::session

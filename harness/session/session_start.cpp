#include "harness/session/session_start.h"

#include <fmt/format.h>

#include "harness/base/build_info.h"
#include "harness/base/log.h"
#include "harness/launch/host.h"
#include "harness/session/context.h"
#include "harness/session/exit_status.h"
#include "harness/session/interrupt.h"

namespace gradsync::session {
namespace {

void warn_about_host(const launch::Host& host, const Gpus& gpus) {
  for (const launch::Finding& finding : findings_about(host, gpus)) {
    if (finding.severity == launch::Finding::Severity::Ok) continue;
    log::warn(fmt::format("{} ({})", finding.what, finding.remedy));
  }
  if (!build_info().timing_valid) {
    log::warn(
        "this is a debug or sanitizer build: its times mean nothing (use the release preset)");
  }
}

}  // namespace

void warn_about_this_host(const plan::Plan& plan) {
  warn_about_host(launch::probe_host(), gpus_for(plan, /*nodes_are_hosts=*/false));
}

std::unique_ptr<Session> start_session(const RunOptions& options, const plan::Plan& plan,
                                       launch::Agents* agents) {
  launch::Host host = launch::probe_host();
  if (agents != nullptr) host.other_gradsync.reset();  // the tasks of this very job
  const Gpus gpus = gpus_for(plan, /*nodes_are_hosts=*/agents != nullptr);
  warn_about_host(host, gpus);
  catch_interrupts();
  return std::make_unique<Session>(options, plan,
                                   make_context(options, plan, std::move(host), gpus), agents);
}

bool run_to_end(Session& session, const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const coordinate::Interrupted&) {
    return false;
  } catch (const ResultsError&) {
    throw;  // nothing can be written
  } catch (const std::exception& error) {
    session.close(exit_status_of(error));
    throw;
  }
}

}  // namespace gradsync::session

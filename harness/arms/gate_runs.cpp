#include "harness/arms/gates.h"

#include "harness/arms/arm_process.h"
#include "harness/base/clock.h"
#include "harness/base/log.h"
#include "harness/base/program_files.h"
#include "harness/gate/against.h"
#include "harness/results/store.h"
#include "harness/session/finished_runs.h"
#include "harness/summary/plan_source.h"

namespace gradsync::arms {
namespace {

// This program, or the build that was named.
std::string candidate_of(const GateOptions& options) {
  return options.candidate.empty() ? this_program().string() : program_of(options.candidate);
}

// The plan of the stored run, where none was named.
session::RunOptions with_plan(const GateQuestion& question, const std::string& directory) {
  session::RunOptions run = question.options.run;
  if (!run.plan.empty()) return run;
  run.plan = directory + "/" + results::kGatePlanFile;
  const nlohmann::json plan = results::read_result(question.options.against).plan;
  results::write_atomically(run.plan, plan.dump(1) + "\n");
  return run;
}

gate::Side side_of_run(const summary::FinishedRun& run, const std::string& name) {
  return {name, run.result.context};
}

}  // namespace

bool has_claims(const GateQuestion& question) {
  return question.file && !question.file->claims.empty();
}

void add_claims(gate::GateReport& report, const GateQuestion& question,
                const summary::FinishedRun& run) {
  if (!has_claims(question)) return;
  report.claims_file = question.file->file;
  report.claims = gate::evaluate_claims(question.file->claims, run, question.settings.alpha);
}

gate::GateReport compare_with_stored(const GateQuestion& question, const std::string& directory) {
  const std::int64_t begin_ns = steady_clock().now_ns();
  const summary::FinishedRun baseline = session::read_run(question.options.against);
  const session::RunOptions plan = with_plan(question, directory);
  const auto run_into = [&](const char* place) {
    return session::run_plan_with(candidate_of(question.options), plan, directory + "/" + place);
  };
  const auto judge = [&](const summary::FinishedRun& run) {
    return gate::judge_against(baseline, run, question.settings,
                               {.rows = question.rows, .times = !question.options.counts_only});
  };
  summary::FinishedRun candidate = run_into(results::kCandidateRun);
  gate::GateReport report = judge(candidate);
  if (const std::string outcome = gate::other_outcome(report); !outcome.empty()) {
    log::warn(outcome + "; it is run once more");
    candidate = run_into(results::kCandidateAgain);
    report = judge(candidate);
    report.notes.push_back(outcome + ": so in the first run; this is the second");
  }
  add_claims(report, question, candidate);
  report.duration_s = seconds(steady_clock().now_ns() - begin_ns);
  return report;
}

gate::GateReport judge_claims(const GateQuestion& question, const std::string& directory) {
  const bool stored = question.kind == GateKind::Results;
  const summary::FinishedRun run =
      stored ? session::read_run(question.options.results)
             : session::run_plan_with(candidate_of(question.options), question.options.run,
                                      directory + "/" + results::kCandidateRun);
  gate::GateReport report;
  report.plan = summary::name_of_plan(run.result.plan).value_or("");
  report.candidate = side_of_run(run, run.directory);
  add_claims(report, question, run);
  return report;
}

}  // namespace gradsync::arms

#include "harness/coordinate/rank_messages.h"

#include "harness/base/messages.h"
#include "harness/launch/topology_fields.h"
#include "harness/results/model_info_fields.h"
#include "harness/results/result_fields.h"

namespace gradsync::plan {

GRADSYNC_FIELDS_OF(Trial, order, cell, round, steps, warmup_steps, distance_steps, timed)

void field_from_json(const nlohmann::json& in, Cell& cell, const FieldPlace&) {
  cell = cell_from_json(in, "launch specification");
}

}  // namespace gradsync::plan

namespace gradsync::account {

GRADSYNC_FIELDS_OF(Contribution, micro_batch, sketch)
GRADSYNC_FIELDS_OF(ParameterRecord, optimizer, index, name, dtype, elements, offset, length,
                   gradient, contributions)
GRADSYNC_FIELDS_OF(AccountedStep, optimizer, micro_batches)
GRADSYNC_FIELDS_OF(AccountRecords, pid, rank, world_size, steps, parameters, faults)

}  // namespace gradsync::account

namespace gradsync::launch {

GRADSYNC_FIELDS_OF(LaunchSpec, trials, topology, seed, launch, timeout_s, as_published,
                   threads_per_rank, device, paper, backend, gloo_loop_yields, fold_from_bytes,
                   every_micro_batch, ranks_per_host, weights, data, one_workload_at_a_time,
                   resident, extra_work)

}  // namespace gradsync::launch

namespace gradsync::coordinate {

constexpr const char* kLauncher = "the launcher";

GRADSYNC_MESSAGE(BeginLaunch, "say", "launch", launch)
GRADSYNC_MESSAGE(RunTrial, "say", "trial", trial)
GRADSYNC_MESSAGE(RankReady, "event", "ready")

constexpr auto fields_of(const TrialDone*) {
  return std::tuple{constant("event", "trial"),
                    GRADSYNC_FIELDS(TrialDone, order, rank, ledger, model_info),
                    GRADSYNC_SPARED_FIELDS(TrialDone, invalid, account, account_why_not)};
}

constexpr auto fields_of(const RankFailure*) {
  return std::tuple{constant("event", "error"),
                    GRADSYNC_FIELDS(RankFailure, order, status, by_peer, what),
                    GRADSYNC_SPARED_FIELDS(RankFailure, oom_place)};
}

GRADSYNC_MESSAGE(RankDone, "event", "done")

nlohmann::json to_json(const LauncherMessage& message) {
  return std::visit([](const auto& said) { return write_fields(said); }, message);
}

nlohmann::json to_json(const RankMessage& message) {
  return std::visit([](const auto& said) { return write_fields(said); }, message);
}

BeginLaunch begin_launch(const nlohmann::json& line) {
  return std::get<BeginLaunch>(read_message<std::variant<BeginLaunch>>(line, kLauncher));
}

RunTrial run_trial(const nlohmann::json& line) {
  return std::get<RunTrial>(read_message<std::variant<RunTrial>>(line, kLauncher));
}

RankMessage rank_message(const nlohmann::json& line, const std::string& from) {
  return read_message<RankMessage>(line, from);
}

}  // namespace gradsync::coordinate

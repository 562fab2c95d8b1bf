#include "harness/coordinate/rank_messages.h"

#include "harness/base/messages.h"
#include "harness/launch/topology_fields.h"
#include "harness/results/model_info_fields.h"

namespace gradsync::plan {

constexpr auto fields_of(const Trial*) {
  return std::tuple{field("order", &Trial::order),
                    field("cell", &Trial::cell),
                    field("round", &Trial::round),
                    field("steps", &Trial::steps),
                    field("warmup_steps", &Trial::warmup_steps),
                    field("distance_steps", &Trial::distance_steps),
                    field("timed", &Trial::timed)};
}

void field_from_json(const nlohmann::json& in, Cell& cell, const FieldPlace&) {
  cell = cell_from_json(in, "launch specification");
}

}  // namespace gradsync::plan

namespace gradsync::account {

constexpr auto fields_of(const Contribution*) {
  return std::tuple{field("micro_batch", &Contribution::micro_batch),
                    field("sketch", &Contribution::sketch)};
}

constexpr auto fields_of(const ParameterRecord*) {
  return std::tuple{field("optimizer", &ParameterRecord::optimizer),
                    field("index", &ParameterRecord::index),
                    field("name", &ParameterRecord::name),
                    field("dtype", &ParameterRecord::dtype),
                    field("elements", &ParameterRecord::elements),
                    field("offset", &ParameterRecord::offset),
                    field("length", &ParameterRecord::length),
                    field("gradient", &ParameterRecord::gradient),
                    field("contributions", &ParameterRecord::contributions)};
}

constexpr auto fields_of(const AccountedStep*) {
  return std::tuple{field("optimizer", &AccountedStep::optimizer),
                    field("micro_batches", &AccountedStep::micro_batches)};
}

constexpr auto fields_of(const AccountRecords*) {
  return std::tuple{field("pid", &AccountRecords::pid),
                    field("rank", &AccountRecords::rank),
                    field("world_size", &AccountRecords::world_size),
                    field("steps", &AccountRecords::steps),
                    field("parameters", &AccountRecords::parameters),
                    field("faults", &AccountRecords::faults)};
}

}  // namespace gradsync::account

namespace gradsync::launch {

constexpr auto fields_of(const LaunchSpec*) {
  return std::tuple{field("trials", &LaunchSpec::trials),
                    field("topology", &LaunchSpec::topology),
                    field("seed", &LaunchSpec::seed),
                    field("launch", &LaunchSpec::launch),
                    field("timeout_s", &LaunchSpec::timeout_s),
                    field("as_published", &LaunchSpec::as_published),
                    field("threads_per_rank", &LaunchSpec::threads_per_rank),
                    field("device", &LaunchSpec::device),
                    field("backend", &LaunchSpec::backend),
                    field("gloo_loop_yields", &LaunchSpec::gloo_loop_yields),
                    field("fold_from_bytes", &LaunchSpec::fold_from_bytes),
                    field("every_micro_batch", &LaunchSpec::every_micro_batch),
                    field("ranks_per_host", &LaunchSpec::ranks_per_host),
                    field("weights", &LaunchSpec::weights),
                    field("data", &LaunchSpec::data),
                    field("one_workload_at_a_time", &LaunchSpec::one_workload_at_a_time),
                    field("resident", &LaunchSpec::resident),
                    field("extra_work", &LaunchSpec::extra_work)};
}

}  // namespace gradsync::launch

namespace gradsync::coordinate {

constexpr const char* kLauncher = "the launcher";

constexpr auto fields_of(const BeginLaunch*) {
  return std::tuple{constant("say", "launch"), field("launch", &BeginLaunch::launch)};
}

constexpr auto fields_of(const RunTrial*) {
  return std::tuple{constant("say", "trial"), field("trial", &RunTrial::trial)};
}

constexpr auto fields_of(const RankReady*) {
  return std::tuple{constant("event", "ready")};
}

constexpr auto fields_of(const TrialDone*) {
  return std::tuple{constant("event", "trial"),
                    field("order", &TrialDone::order),
                    field("rank", &TrialDone::rank),
                    field("ledger", &TrialDone::ledger),
                    field("model_info", &TrialDone::model_info),
                    field("invalid", &TrialDone::invalid).spared(),
                    field("account", &TrialDone::account).spared(),
                    field("account_why_not", &TrialDone::account_why_not).spared()};
}

constexpr auto fields_of(const RankFailure*) {
  return std::tuple{constant("event", "error"), field("order", &RankFailure::order),
                    field("status", &RankFailure::status), field("by_peer", &RankFailure::by_peer),
                    field("what", &RankFailure::what)};
}

constexpr auto fields_of(const RankDone*) {
  return std::tuple{constant("event", "done")};
}

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

// The fields of a watched job as files have them. Where they are read or written alone: fields.h is
// templates.
#pragma once

#include <array>
#include <tuple>
#include <utility>

#include "harness/account/account_fields.h"
#include "harness/base/fields.h"
#include "harness/watch/judge/series_fields.h"
#include "harness/watch/judge/watched.h"
#include "harness/watch/tell/watched_files.h"

namespace gradsync::watch {

// Larger values are errors. A value that is multiplied by micro-batches must stay far below.
inline constexpr std::int64_t kMostOfAStep = std::int64_t{1} << 53;
inline constexpr std::int64_t kMostOfAMicroBatch = std::int64_t{1} << 42;
inline constexpr std::int64_t kMostMicroBatches = 1'000'000;

constexpr auto names_of(const VerdictKind*) {
  return std::array{std::pair{VerdictKind::OncePerStep, "once_per_step"},
                    std::pair{VerdictKind::MoreThanOnce, "more_than_once"},
                    std::pair{VerdictKind::Never, "never"},
                    std::pair{VerdictKind::TooEarly, "too_early"},
                    std::pair{VerdictKind::SomeStepsNever, "some_steps_never"},
                    std::pair{VerdictKind::FsdpEveryMicroBatch, "fsdp_every_micro_batch"},
                    std::pair{VerdictKind::EveryMicroBatch, "every_micro_batch"},
                    std::pair{VerdictKind::ReplicasMoreThanOnce, "replicas_more_than_once"},
                    std::pair{VerdictKind::ReplicasNever, "replicas_never"},
                    std::pair{VerdictKind::ReplicasTooEarly, "replicas_too_early"},
                    std::pair{VerdictKind::ReplicasOncePerStep, "replicas_once_per_step"},
                    std::pair{VerdictKind::ReplicasDrift, "replicas_drift"},
                    std::pair{VerdictKind::ReducedTwice, "reduced_twice"},
                    std::pair{VerdictKind::AveragedAtTimes, "averaged_at_times"},
                    std::pair{VerdictKind::DiffersInBits, "differs_in_bits"},
                    std::pair{VerdictKind::OwnParameters, "own_parameters"},
                    std::pair{VerdictKind::BuffersDiffer, "buffers_differ"},
                    std::pair{VerdictKind::UnusedParameters, "unused_parameters"},
                    std::pair{VerdictKind::Buffers, "buffers"},
                    std::pair{VerdictKind::OneProcess, "one_process"},
                    std::pair{VerdictKind::NoSteps, "no_steps"},
                    std::pair{VerdictKind::NotRecognised, "not_recognised"},
                    std::pair{VerdictKind::NotInFile, "not_in_file"}};
}

constexpr auto names_of(const WasteKind*) {
  return std::array{std::pair{WasteKind::SmallReductions, "small_reductions"},
                    std::pair{WasteKind::OneBucket, "one_bucket"},
                    std::pair{WasteKind::NoOverlap, "no_overlap"},
                    std::pair{WasteKind::UnreadGradients, "unread_gradients"},
                    std::pair{WasteKind::Barriers, "barriers"},
                    std::pair{WasteKind::ObjectCollectives, "object_collectives"},
                    std::pair{WasteKind::SmallCollectives, "small_collectives"},
                    std::pair{WasteKind::HostReads, "host_reads"},
                    std::pair{WasteKind::Agreements, "agreements"}};
}

constexpr auto names_of(const When*) {
  return std::array{std::pair{When::EachMicroBatch, "each_micro_batch"},
                    std::pair{When::ReplicasAtTheEnd, "replicas_at_the_end"},
                    std::pair{When::AllAtTheEnd, "all_at_the_end"}};
}

constexpr auto fields_of(const OpSum*) {
  return std::tuple{field("count", &OpSum::count).at_least(1),
                    field("bytes", &OpSum::bytes).at_least(0)};
}

constexpr auto fields_of(const Change*) {
  return std::tuple{field("file", &Change::file).or_null().filled(),
                    field("line", &Change::line).or_null().at_least(1),
                    field("what", &Change::what).filled(),
                    field("inside", &Change::inside).later().or_null().filled()};
}

// null: None.
nlohmann::json field_to_json(const Cause& cause);
void field_from_json(const nlohmann::json& in, Cause& cause, const FieldPlace& place);
inline nlohmann::json field_schema(const Cause*) {
  return {{"type", {"string", "null"}}};
}

constexpr auto fields_of(const Verdict*) {
  return std::tuple{field("kind", &Verdict::kind), field("cause", &Verdict::cause).later(),
                    field("sentence", &Verdict::sentence).filled(),
                    field("why", &Verdict::why).or_null().filled(),
                    GRADSYNC_FIELDS(Verdict, change, fails)};
}
void check_fields(const Verdict& verdict, const FieldCheck& check);

constexpr auto fields_of(const ModelVerdict*) {
  return std::tuple{field("wrapper", &ModelVerdict::wrapper).filled(),
                    field("file", &ModelVerdict::file).or_null().filled(),
                    field("line", &ModelVerdict::line).or_null().at_least(1),
                    field("verdict", &ModelVerdict::verdict)};
}

constexpr auto fields_of(const CallPlace*) {
  return std::tuple{field("file", &CallPlace::file).or_null().filled(),
                    field("line", &CallPlace::line).or_null().at_least(1),
                    field("calls", &CallPlace::calls).at_least(1),
                    field("takes_s", &CallPlace::takes_s).at_least(0)};
}

constexpr auto fields_of(const Waste*) {
  return std::tuple{
      field("kind", &Waste::kind),
      field("reductions", &Waste::reductions).at_least(1),
      field("sentence", &Waste::sentence).filled(),
      field("why", &Waste::why).or_null().filled(),
      field("change", &Waste::change),
      with_reason("no_saved_s_because", field("saved_s", &Waste::saved_s).at_least(0)),
      field("places", &Waste::places).later()};
}

constexpr auto fields_of(const StepKind*) {
  return std::tuple{GRADSYNC_FIELDS_FROM(1, StepKind, micro_batches, steps, all),
                    GRADSYNC_FIELDS_FROM(0, StepKind, every, cleared),
                    field("file", &StepKind::file), field("line", &StepKind::line).at_least(0)};
}

GRADSYNC_FIELDS_OF(Flag, name, is_on_root, file, line, on, off)

constexpr auto fields_of(const Policy*) {
  return std::tuple{GRADSYNC_FIELDS(Policy, when, held_bytes),
                    field("parameter_bytes", &Policy::parameter_bytes).later(),
                    field("saved_s", &Policy::saved_s)};
}

constexpr auto fields_of(const Axis*) {
  return std::tuple{field("role", &Axis::role), field("name", &Axis::name).or_null().filled(),
                    field("ranks", &Axis::ranks).or_null().filled().at_least(0),
                    GRADSYNC_FIELDS(Axis, collectives, ideal, excess)};
}
void check_fields(const Axis& axis, const FieldCheck& check);

constexpr auto fields_of(const StepParts*) {
  return std::tuple{GRADSYNC_FIELDS(StepParts, fixed, micro_batch, synchronization),
                    GRADSYNC_FIELDS_FROM(0, StepParts, fixed_s, micro_batch_s, synchronization_s)};
}
void check_fields(const StepParts& parts, const FieldCheck& check);

constexpr auto fields_of(const GpuTimes*) {
  return std::tuple{GRADSYNC_FIELDS_FROM(0, GpuTimes, span_s, communication_s, computation_s,
                                         overlapped_s, exposed_s),
                    field("waited_s", &GpuTimes::waited_s).later().at_least(0),
                    field("idle_s", &GpuTimes::idle_s).at_least(0)};
}

constexpr auto fields_of(const MostExposed*) {
  return std::tuple{field("name", &MostExposed::name).filled(),
                    GRADSYNC_FIELDS_FROM(1, MostExposed, number, of),
                    GRADSYNC_FIELDS_FROM(0, MostExposed, bytes, exposed_s)};
}

constexpr auto fields_of(const StepOnGpu*) {
  return std::tuple{field("steps", &StepOnGpu::steps).later().at_least(0),
                    beside(&StepOnGpu::times), field("most_exposed", &StepOnGpu::most_exposed)};
}

constexpr auto fields_of(const TypicalStep*) {
  return std::tuple{
      field("micro_batches", &TypicalStep::micro_batches).at_least(0).at_most(kMostMicroBatches),
      field("synchronized", &TypicalStep::synchronized).at_least(0),
      field("steps", &TypicalStep::steps).at_least(1),
      GRADSYNC_FIELDS(TypicalStep, collectives, ideal, excess),
      field("axes", &TypicalStep::axes).later().or_null(),
      field("step_s", &TypicalStep::step_s).at_least(0),
      with_reason("no_excess_s_because", field("excess_s", &TypicalStep::excess_s).at_least(0)),
      field("policies", &TypicalStep::policies).later(),
      with_reason("no_parts_because", field("parts", &TypicalStep::parts).later()),
      field("gpu", &TypicalStep::gpu).later()};
}
void check_fields(const TypicalStep& typical, const FieldCheck& check);

constexpr auto fields_of(const TensorPeak*) {
  return std::tuple{
      with_reason("no_peak_because",
                  field("peak_allocated_bytes", &TensorPeak::bytes).later().at_least(0)),
      field("peak_is_on_gpu", &TensorPeak::is_on_gpu).later(),
      field("peak_reserved_bytes", &TensorPeak::reserved_bytes).spared().at_least(0)};
}

constexpr auto fields_of(const WatchedRank*) {
  return std::tuple{
      field("rank", &WatchedRank::rank).or_null_below_0(),
      GRADSYNC_FIELDS_FROM(0, WatchedRank, pid, steps, skipped_steps, evaluation_forwards),
      field("backwards", &WatchedRank::backwards).later().or_null_below_0(),
      field("collectives", &WatchedRank::collectives),
      beside(&WatchedRank::peak),
      field("gpu", &WatchedRank::gpu).later()};
}

constexpr auto fields_of(const Watched*) {
  return std::tuple{constant("schema", kWatchSchema),
                    field("world_size", &Watched::world_size).at_least(0),
                    GRADSYNC_FIELDS(Watched, wrappers, ranks),
                    field("per_step", &Watched::typical),
                    field("verdicts", &Watched::verdicts).filled(),
                    computed("has_excess", &has_excess).must_be("whether a verdict fails"),
                    GRADSYNC_LATER_FIELDS(Watched, models, wastes, flags, kinds),
                    field("faults", &Watched::faults),
                    GRADSYNC_LATER_FIELDS(Watched, account, series)};
}
void check_fields(const Watched& watched, const FieldCheck& check);

}  // namespace gradsync::watch

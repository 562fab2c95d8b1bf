// The fields of an account as files have them. Where they are read or written alone: fields.h is
// templates.
#pragma once

#include <array>
#include <tuple>
#include <utility>

#include "harness/account/account_verdict.h"
#include "harness/base/fields.h"

namespace gradsync::stats {

constexpr auto names_of(const FittedWeight::Kind*) {
  return std::array{std::pair{FittedWeight::Kind::Known, "known"},
                    std::pair{FittedWeight::Kind::Apart, "not_told_apart"},
                    std::pair{FittedWeight::Kind::Absent, "absent"}};
}

constexpr auto fields_of(const FittedWeight*) {
  return std::tuple{field("kind", &FittedWeight::kind), field("weight", &FittedWeight::weight),
                    field("error", &FittedWeight::error)};
}

}  // namespace gradsync::stats

namespace gradsync::account {

constexpr auto names_of(const AccountKind*) {
  return std::array{std::pair{AccountKind::Equal, "equal"},
                    std::pair{AccountKind::Dropped, "dropped"},
                    std::pair{AccountKind::RankLost, "rank_lost"},
                    std::pair{AccountKind::Unequal, "unequal"},
                    std::pair{AccountKind::ByTokens, "by_tokens"},
                    std::pair{AccountKind::GroupsDiffer, "groups_differ"},
                    std::pair{AccountKind::Separate, "separate"},
                    std::pair{AccountKind::NotASum, "not_a_sum"},
                    std::pair{AccountKind::Rounded, "rounded"},
                    std::pair{AccountKind::NotToldApart, "not_told_apart"},
                    std::pair{AccountKind::Drifted, "drifted"},
                    std::pair{AccountKind::Factor, "factor"},
                    std::pair{AccountKind::Zero, "zero"},
                    std::pair{AccountKind::Unknown, "unknown"}};
}

constexpr auto fields_of(const WeightGroup*) {
  return std::tuple{field("parameters", &WeightGroup::parameters),
                    field("elements", &WeightGroup::elements),
                    field("is_rounded", &WeightGroup::is_rounded),
                    field("ranks", &WeightGroup::ranks),
                    field("readers", &WeightGroup::readers),
                    field("weights", &WeightGroup::weights),
                    field("tokens", &WeightGroup::tokens).later(),
                    computed(
                        "mean", +[](const WeightGroup& group) { return group.mean(); }),
                    field("left_over", &WeightGroup::left_over),
                    field("condition", &WeightGroup::condition),
                    field("equations", &WeightGroup::equations),
                    field("decay", &WeightGroup::decay),
                    field("is_of_the_step_before", &WeightGroup::is_of_the_step_before)};
}

constexpr auto fields_of(const StepAccount*) {
  return std::tuple{field("step", &StepAccount::step),
                    field("micro_batches", &StepAccount::micro_batches),
                    field("loss_scale", &StepAccount::loss_scale),
                    field("clippings", &StepAccount::clippings),
                    field("is_used", &StepAccount::is_used),
                    field("comm_hook", &StepAccount::comm_hook).later(),
                    field("groups", &StepAccount::groups)};
}

constexpr auto fields_of(const AccountVerdict*) {
  return std::tuple{field("kind", &AccountVerdict::kind),
                    field("sentence", &AccountVerdict::sentence),
                    field("why", &AccountVerdict::why), field("is_off", &AccountVerdict::is_off)};
}

constexpr auto fields_of(const GradientAccount*) {
  return std::tuple{
      field("steps", &GradientAccount::steps), field("alike", &GradientAccount::alike),
      field("shown", &GradientAccount::shown), field("verdicts", &GradientAccount::verdicts),
      field("faults", &GradientAccount::faults)};
}

}  // namespace gradsync::account

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

GRADSYNC_FIELDS_OF(FittedWeight, kind, weight, error)

}  // namespace gradsync::stats

namespace gradsync::account {

constexpr auto names_of(const GradientCallKind*) {
  return std::array{std::pair{GradientCallKind::ZeroGrad, "zero_grad"},
                    std::pair{GradientCallKind::ClipNorm, "clip_norm"},
                    std::pair{GradientCallKind::ClipValue, "clip_value"},
                    std::pair{GradientCallKind::ClipOwnNorm, "clip_own_norm"},
                    std::pair{GradientCallKind::SetToZero, "set_to_zero"}};
}

constexpr auto fields_of(const GradientCall*) {
  return std::tuple{field("what", &GradientCall::what),
                    field("after", &GradientCall::after).at_least(0),
                    field("file", &GradientCall::file),
                    field("line", &GradientCall::line).at_least(0),
                    field("inside", &GradientCall::inside).later(),
                    field("inside_line", &GradientCall::inside_line).later().at_least(0)};
}

constexpr auto names_of(const AccountKind*) {
  return std::array{std::pair{AccountKind::Equal, "equal"},
                    std::pair{AccountKind::Dropped, "dropped"},
                    std::pair{AccountKind::RankLost, "rank_lost"},
                    std::pair{AccountKind::Unequal, "unequal"},
                    std::pair{AccountKind::ByTokens, "by_tokens"},
                    std::pair{AccountKind::GroupsDiffer, "groups_differ"},
                    std::pair{AccountKind::Separate, "separate"},
                    std::pair{AccountKind::ShardsApart, "shards_apart"},
                    std::pair{AccountKind::NotASum, "not_a_sum"},
                    std::pair{AccountKind::Rounded, "rounded"},
                    std::pair{AccountKind::NotToldApart, "not_told_apart"},
                    std::pair{AccountKind::Drifted, "drifted"},
                    std::pair{AccountKind::Factor, "factor"},
                    std::pair{AccountKind::Windows, "windows"},
                    std::pair{AccountKind::Zero, "zero"},
                    std::pair{AccountKind::Unknown, "unknown"}};
}

GRADSYNC_FIELDS_OF(ShardFactor, rank, factor)

constexpr auto fields_of(const WeightGroup*) {
  return std::tuple{
      GRADSYNC_FIELDS(WeightGroup, parameters, elements, is_rounded, ranks, readers, weights,
                      left_over, condition, equations, decay, is_of_the_step_before),
      GRADSYNC_LATER_FIELDS(WeightGroup, tokens, shards),
      computed(
          "mean", +[](const WeightGroup& group) { return group.mean(); })};
}

constexpr auto fields_of(const StepAccount*) {
  return std::tuple{
      GRADSYNC_FIELDS(StepAccount, step, micro_batches, loss_scale, clippings, is_used, groups),
      field("comm_hook", &StepAccount::comm_hook).later()};
}

constexpr auto fields_of(const AccountVerdict*) {
  return std::tuple{GRADSYNC_FIELDS(AccountVerdict, kind, sentence, why, is_off),
                    field("steps", &AccountVerdict::steps).later()};
}

constexpr auto fields_of(const GradientAccount*) {
  return std::tuple{GRADSYNC_FIELDS(GradientAccount, steps, alike, shown, verdicts, faults),
                    field("lost", &GradientAccount::lost).later()};
}

}  // namespace gradsync::account

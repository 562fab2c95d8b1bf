#include "harness/fit/tell.h"

#include <gmock/gmock.h>

namespace gradsync::fit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

RankFit rank_of(int number) {
  RankFit rank;
  rank.rank = number;
  rank.peak_allocated_bytes = 40 * kGiB;
  rank.peak_reserved_bytes = 50 * kGiB;
  rank.place = {2, 1, Phase::Backward};
  rank.module = "layers.3.mlp";
  rank.parts = {{Category::Parameters, 30 * kGiB, {{"Linear", 30 * kGiB}}},
                {Category::Rounding, 10 * kGiB, {}}};
  rank.communicators = 2;
  return rank;
}

JobFit fit_of(std::vector<RankFit> ranks) {
  JobFit fit;
  std::string wrong;
  fit.gpus = paper::parse_gpus("4xa100-80", wrong);
  fit.world = 4;
  fit.steps = 3;
  fit.ranks = std::move(ranks);
  fit.variable = "PYTORCH_ALLOC_CONF";
  fit.settings = {{settings()[1], {40 * kGiB, 45 * kGiB, false}}};
  return fit;
}

TEST(FitPage, RanksThatHoldTheSameAreOneRow) {
  const std::string page = fit_page(fit_of({rank_of(0), rank_of(1), rank_of(2)}));
  EXPECT_THAT(page, HasSubstr("GPUs of paper: nothing was computed or timed"));
  EXPECT_THAT(page, HasSubstr("| 0 to 2 | 40.00 GiB | 50.00 GiB | yes  |"));
  EXPECT_THAT(page,
              HasSubstr("rank 0 holds most in step 2, micro-batch 1, backward, layers.3.mlp"));
  EXPECT_THAT(page, HasSubstr("| parameters       | 32212254720 | 75.0 % | Linear 30.00 GiB |"));
  EXPECT_THAT(page, HasSubstr("| expandable_segments:True | 40.00 GiB | 45.00 GiB |"));
}

TEST(FitPage, SaysWhichRankRanOutAndWhy) {
  RankFit out = rank_of(1);
  out.outcome = Outcome::OutOfMemory;
  out.reason = "CUDA out of memory. Tried to allocate 176.00 MiB.";
  JobFit fit = fit_of({rank_of(0), out});
  fit.replayed_rank = 1;
  const std::string page = fit_page(fit);
  EXPECT_THAT(page, HasSubstr("no: out of memory"));
  EXPECT_THAT(page, HasSubstr("| gets past that point |"));
  EXPECT_THAT(page, HasSubstr("rank 1: CUDA out of memory. Tried to allocate 176.00 MiB."));
}

TEST(FitPage, WhatIsLeftForTheDriverMayBeTooLittle) {
  RankFit rank = rank_of(0);
  rank.peak_reserved_bytes = 78 * kGiB;
  EXPECT_THAT(fit_page(fit_of({rank})), HasSubstr("barely"));
  EXPECT_THAT(fit_page(fit_of({rank_of(0)})), Not(HasSubstr("barely")));
}

// Torch reserves less than there is: it may fit, or not, beside the least that a context takes.
TEST(FitPage, WithoutRoomForAContextItDoesNotFit) {
  RankFit rank = rank_of(0);
  rank.peak_reserved_bytes = 79 * kGiB;
  EXPECT_EQ(fits_of(rank, fit_of({}).gpus), Fits::Barely);
  rank.is_out_beside_context = true;
  EXPECT_EQ(fits_of(rank, fit_of({}).gpus), Fits::No);
  EXPECT_THAT(fit_page(fit_of({rank})), HasSubstr("no: not beside its context"));
  EXPECT_EQ(fit_json(fit_of({rank}))["ranks"][0]["fits"], "no");
}

TEST(FitPage, SaysHowMuchMoreIsReservedBehindTheHost) {
  RankFit rank = rank_of(0);
  rank.behind = Behind{Outcome::Ok, 60 * kGiB};
  EXPECT_THAT(fit_page(fit_of({rank})),
              HasSubstr("rank 0 reserves between 50.00 GiB and 60.00 GiB, by how far the host"));
  EXPECT_EQ(fits_of(rank, fit_of({}).gpus), Fits::Yes);
  rank.behind->outcome = Outcome::OutOfMemory;
  EXPECT_EQ(fits_of(rank, fit_of({}).gpus), Fits::Barely);
  EXPECT_EQ(fit_json(fit_of({rank}))["ranks"][0]["behind"]["status"], "oom");
  EXPECT_TRUE(fit_json(fit_of({rank_of(0)}))["ranks"][0]["behind"].is_null());
}

TEST(FitPage, SaysWhatIsDueToWorkspaces) {
  JobFit fit = fit_of({rank_of(0)});
  EXPECT_TRUE(fit_json(fit)["without_workspaces"].is_null());
  fit.without_workspaces = Replayed{38 * kGiB, 41 * kGiB, false};
  EXPECT_THAT(fit_page(fit), HasSubstr("that cuDNN asks for, rank 0 reserves 41.00 GiB"));
  EXPECT_EQ(fit_json(fit)["without_workspaces"]["peak_reserved_bytes"], 41 * kGiB);
}

TEST(FitJson, HasWhatOthersRead) {
  RankFit out = rank_of(1);
  out.outcome = Outcome::OutOfMemory;
  out.reason = "CUDA out of memory.";
  const nlohmann::json json = fit_json(fit_of({rank_of(0), out}));
  EXPECT_EQ(json["schema"], "gradsync.paper_memory/1");
  EXPECT_EQ(json["on"]["gpus"], 4);
  EXPECT_EQ(json["on"]["gpu"], "a100-80");
  EXPECT_EQ(json["on"]["world"], 4);
  EXPECT_GT(json["on"]["memory_bytes"], 79 * kGiB);
  EXPECT_EQ(json["ranks"][0]["status"], "ok");
  EXPECT_EQ(json["ranks"][0]["peak_allocated_bytes"], 40 * kGiB);
  EXPECT_EQ(json["ranks"][1]["status"], "oom");
  EXPECT_EQ(json["ranks"][1]["reason"], "CUDA out of memory.");
  EXPECT_EQ(json["ranks"][1]["rank"], 1);
  const auto smi = json["ranks"][0]["nvidia_smi_bytes"];
  EXPECT_LT(50 * kGiB, smi[0]);
  EXPECT_LT(smi[0], smi[1]);
}

}  // namespace
}  // namespace gradsync::fit

#include "harness/gate/turns.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "harness/base/errors.h"

namespace gradsync::gate {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TurnFamily sample_family() {
  Turn first{.start = 0, .order = {Arm::Control, Arm::Baseline, Arm::Candidate}, .step_s = {}};
  first.elapsed_s = {0.020, 0.024, 0.028};
  first.phase_s = {{"backward", {0.015, 0.018, 0.02}}, {"forward", {0.005, 0.006, 0.008}}};
  first.of(Arm::Baseline) = {0.010, 0.011};
  first.of(Arm::Candidate) = {0.012, 0.013};
  first.of(Arm::Control) = {0.014, 0.015};
  Turn second = first;
  second.start = 1;
  std::reverse(second.order.begin(), second.order.end());
  return {{{"host", "here"}},
          0.03,
          2,
          1,
          {{}, {{Arm::Candidate, Arm::Control, Arm::Baseline}, true}},
          {{"part one", json{{"strategy", "no_sync"}}, {first, second}},
           {"", json{{"strategy", "baseline"}}, {}}}};
}

// What turn_family_from_json says about the sample after `change`.
std::string complaint(const std::function<void(json&)>& change) {
  json in = to_json(sample_family());
  change(in);
  try {
    turn_family_from_json(in, "turns.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Turns, SurviveJson) {
  const json out = to_json(sample_family());
  EXPECT_EQ(out["rows"][0]["turns"][0]["candidate_s"], (json{0.012, 0.013}));
  EXPECT_EQ(out["rows"][0]["turns"][1]["order"], (json{"candidate", "baseline", "control"}));
  const TurnFamily again = turn_family_from_json(out, "turns.json");
  EXPECT_EQ(to_json(again), out);
  EXPECT_EQ(again.rows[0].turns[0].of(Arm::Control), (std::vector<double>{0.014, 0.015}));
  EXPECT_EQ(again.rows[0].turns[1].start, 1);
  EXPECT_EQ(again.rows[0].turns[0].phase_s, sample_family().rows[0].turns[0].phase_s);
  EXPECT_EQ(again.extra_work, 0.03);
  EXPECT_EQ(out["starts"][1],
            (json{{"order", {"candidate", "control", "baseline"}}, {"exchanges_baselines", true}}));
  EXPECT_EQ(again.starts, sample_family().starts);
  EXPECT_EQ(out["rows"][0]["turns"][0]["elapsed_s"], (json{0.020, 0.024, 0.028}));
}

TEST(Turns, OfOlderVersionsStartedInOneOrderAndKnowNoElapsedTime) {
  json out = to_json(sample_family());
  out["schema"] = kOlderTurnsSchema;
  out.erase("starts");
  for (json& turn : out["rows"][0]["turns"]) turn.erase("elapsed_s");
  const TurnFamily older = turn_family_from_json(out, "turns.json");
  EXPECT_TRUE(older.starts.empty());
  EXPECT_DOUBLE_EQ(older.rows[0].turns[0].mean_step_s(Arm::Candidate), 0.0125);
}

TEST(Turns, TheMeanStepIsElapsedTime) {
  const Turn turn = sample_family().rows[0].turns[0];
  EXPECT_DOUBLE_EQ(turn.mean_step_s(Arm::Baseline), 0.010) << "not the mean of 10 and 11 ms";
  EXPECT_THROW(Turn{}.mean_step_s(Arm::Baseline), InternalError);
}

TEST(Turns, AreReadStrictly) {
  EXPECT_EQ(complaint([](json&) {}), "accepted");
  EXPECT_THAT(complaint([](json& in) { in["schema"] = "gradsync.gate_turns/9"; }),
              HasSubstr("turns.json: field 'schema': got \"gradsync.gate_turns/9\""));
  EXPECT_THAT(complaint([](json& in) { in["starts"][1]["order"] = {"control"}; }),
              HasSubstr("field 'starts[1].order'"));
  EXPECT_THAT(complaint([](json& in) { in["more"] = 1; }), HasSubstr("field 'more'"));
  EXPECT_THAT(complaint([](json& in) { in["settings"].erase("settle_steps"); }),
              HasSubstr("field 'settings.settle_steps'"));
  EXPECT_THAT(complaint([](json& in) { in["extra_work"] = -0.1; }),
              HasSubstr("field 'extra_work': got -0.1, expected a share of at least 0"));
  EXPECT_THAT(complaint([](json& in) { in["rows"][0]["cell"] = 3; }),
              HasSubstr("field 'rows[0].cell': got 3, expected an object"));
  EXPECT_THAT(complaint([](json& in) { in["rows"][1]["turns"] = json::object(); }),
              HasSubstr("field 'rows[1].turns': got {}, expected a list"));
}

TEST(Turns, OfATurnAreReadStrictly) {
  const auto in_turn = [](const char* field, const json& value) {
    return complaint([&](json& in) { in["rows"][0]["turns"][1][field] = value; });
  };
  EXPECT_THAT(
      in_turn("order", {"baseline", "baseline", "control"}),
      HasSubstr("field 'rows[0].turns[1].order': got [\"baseline\",\"baseline\",\"control\"], "
                "expected baseline, candidate and control, each once"));
  EXPECT_THAT(
      in_turn("candidate_s", {0.01}),
      HasSubstr(
          "'rows[0].turns[1].candidate_s': got 1, expected 2 steps, as many as the baseline's"));
  EXPECT_THAT(in_turn("baseline_s", json::array()), HasSubstr("got none, expected at least one"));
  for (const json& step : {json(0.0), json(-0.01), json("0.01"), json(nullptr)}) {
    EXPECT_THAT(in_turn("control_s", {0.01, step}),
                HasSubstr(fmt::format("control_s': got {}, expected a list of positive numbers",
                                      step.dump())));
  }
  EXPECT_THAT(in_turn("elapsed_s", {1, 1}), HasSubstr("one number for each arm"));
  EXPECT_THAT(in_turn("elapsed_s", {1, 0, 1}), HasSubstr("got 0, expected positive numbers"));
  for (const json& phases : {json{{"forward", {1, 1}}}, json{{"forward", {1, -1, 1}}}}) {
    EXPECT_THAT(in_turn("phase_s", phases), HasSubstr("one number of at least 0 for each arm"));
  }
  EXPECT_THAT(in_turn("phase_s", 1), HasSubstr("expected an object"));
  EXPECT_EQ(in_turn("start", 7), "accepted") << "the row was closed in between";
  EXPECT_THAT(in_turn("start", -1), HasSubstr("turns[1].start': got -1"));
  EXPECT_THAT(in_turn("start", std::int64_t{1} << 40), HasSubstr("a smaller number"));
}

TEST(TurnOrders, ComeInMirroredPairs) {
  stats::Random random(7);
  const auto orders = turn_orders(10, random);
  ASSERT_EQ(orders.size(), 10U);
  for (std::size_t i = 0; i < orders.size(); i += 2) {
    ArmOrder mirrored = orders[i];
    std::reverse(mirrored.begin(), mirrored.end());
    EXPECT_EQ(orders[i + 1], mirrored);
    EXPECT_TRUE(std::is_permutation(orders[i].begin(), orders[i].end(), kArms.begin()));
  }
  stats::Random same(7);
  EXPECT_EQ(turn_orders(10, same), orders);
}

TEST(TurnOrders, AreAllEquallyLikely) {
  stats::Random random(42);
  std::map<ArmOrder, int> seen;
  constexpr int kPairs = 6000;
  const auto orders = turn_orders(2 * kPairs, random);
  for (std::size_t i = 0; i < orders.size(); i += 2) ++seen[orders[i]];
  ASSERT_EQ(seen.size(), 6U);
  // 1000 each with a deviation of 29; five of those are never seen by chance.
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, kPairs / 6, 145);
}

constexpr std::size_t kManyStarts = 3 * 6000;

TEST(StartDraws, InEveryThreeStartsEveryArmHasEveryPlaceOnce) {
  stats::Random random(7);
  const auto draws = start_draws(kManyStarts, random);
  ASSERT_EQ(draws.size(), kManyStarts);
  for (std::size_t start = 0; start < draws.size(); start += 3) {
    for (std::size_t place = 0; place < 3; ++place) {
      const std::set<Arm> arms{draws[start].order[place], draws[start + 1].order[place],
                               draws[start + 2].order[place]};
      ASSERT_EQ(arms.size(), 3U) << "start " << start << ", place " << place;
    }
  }
  stats::Random same(7);
  EXPECT_EQ(start_draws(kManyStarts, same), draws);
  EXPECT_EQ(start_draws(4, same).size(), 4U);
}

TEST(StartDraws, EverySquareIsEquallyLikely) {
  stats::Random random(42);
  const auto draws = start_draws(kManyStarts, random);
  std::map<std::pair<ArmOrder, ArmOrder>, int> seen;  // the third start follows from these
  for (std::size_t start = 0; start < draws.size(); start += 3) {
    ++seen[{draws[start].order, draws[start + 1].order}];
  }
  ASSERT_EQ(seen.size(), 12U);
  // 500 each with a deviation of 21.
  for (const auto& [orders, count] : seen) EXPECT_NEAR(count, 500, 105);
}

TEST(StartDraws, EitherBaselineProcessIsTheControlEquallyOftenInEveryPlace) {
  stats::Random random(42);
  std::map<std::pair<Arm, bool>, int> first;  // who starts first, and whether exchanged
  for (const StartDraw& draw : start_draws(kManyStarts, random)) {
    ++first[{draw.order[0], draw.exchanges_baselines}];
  }
  ASSERT_EQ(first.size(), 6U);
  // 3000 each with a deviation of 50.
  for (const auto& [who, count] : first) EXPECT_NEAR(count, 3000, 250);
}

TEST(TurnOrders, OddNumbersHaveNoPairs) {
  stats::Random random(1);
  EXPECT_THROW(turn_orders(3, random), InternalError);
  EXPECT_TRUE(turn_orders(0, random).empty());
}

}  // namespace
}  // namespace gradsync::gate

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/errors.h"
#include "harness/results/store.h"
#include "tests/harness/results/samples.h"

namespace gradsync::results {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const json kPlan = {{"name", "smoke"}, {"steps", 8}, {"cells", {{"model", {"bert_tiny"}}}}};

json old_result() {
  return {{"schema", kResultSchema},
          {"context", {{"commit", "3f2c1ab"}, {"host", "node7"}}},
          {"plan", kPlan}};
}

StoredResult stored(const json& result) {
  return {Context(result["context"]), result["plan"], std::nullopt};
}

std::string mismatch(const json& plan, const std::string& commit, const std::string& host) {
  try {
    check_resumable(stored(old_result()), plan, json{{"commit", commit}, {"host", host}});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(CheckResumable, SameRunGoesOn) {
  EXPECT_EQ(mismatch(kPlan, "3f2c1ab", "node7"), "no error");
}

TEST(CheckResumable, EveryDifferenceIsListedWithBothValues) {
  json plan = kPlan;
  plan["steps"] = 9;
  plan["seed"] = 1;
  EXPECT_THAT(mismatch(plan, "abcdef0", "node8"),
              AllOf(HasSubstr("plan/steps was 8, is 9"), HasSubstr("plan/seed was nothing, is 1"),
                    HasSubstr(R"(commit was "3f2c1ab", is "abcdef0")"),
                    HasSubstr(R"(host was "node7", is "node8")")));
}

TEST(CheckResumable, OneDifferenceIsEnough) {
  EXPECT_THAT(mismatch(kPlan, "3f2c1ab-dirty", "node7"),
              AllOf(HasSubstr("commit"), Not(HasSubstr("host"))));
  EXPECT_THAT(mismatch(kPlan, "3f2c1ab", "node8"),
              AllOf(HasSubstr("host"), Not(HasSubstr("commit"))));
  json plan = kPlan;
  plan["cells"]["model"] = {"bert_tiny", "mlp"};
  EXPECT_THAT(mismatch(plan, "3f2c1ab", "node7"),
              HasSubstr(R"(plan/cells/model was ["bert_tiny"], is ["bert_tiny","mlp"])"));
}

TEST(CheckResumable, ResultWithoutContextMatchesNothing) {
  EXPECT_THROW(check_resumable({}, kPlan, json{{"commit", "3f2c1ab"}, {"host", "node7"}}),
               ConfigError);
}

TEST(CheckResumable, OtherWeightsOrDataAreAnotherMeasurement) {
  json earlier = old_result();
  earlier["context"]["data"] = "a.jsonl";
  json now = earlier["context"];
  EXPECT_NO_THROW(check_resumable(stored(earlier), kPlan, now));
  now["data"] = nullptr;
  now["weights"] = "b.safetensors";
  try {
    check_resumable(stored(earlier), kPlan, now);
    FAIL() << "went on with other data";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(R"(data was "a.jsonl", is null)"),
                                    HasSubstr(R"(weights was null, is "b.safetensors")")));
  }
}

TEST(DoneKeys, OnlyLastingOutcomesCount) {
  std::vector<TrialRecord> trials;
  for (const auto status : {Status::Ok, Status::Oom, Status::Invalid, Status::Timeout,
                            Status::Failed, Status::Skipped}) {
    trials.push_back(sample_trial(static_cast<int>(trials.size())));
    trials.back().status = status;
  }
  const auto done = done_keys(trials);
  const auto key = [](int launch) {
    return trial_key("your_machine", sample_trial().cell, launch, 0);
  };
  EXPECT_EQ(done, (std::set<std::string>{key(0), key(1), key(2)}));
}

TEST(TrialKey, TellsPartCellLaunchAndRoundApart) {
  const json cell = sample_trial().cell.written();
  json other = cell;
  other["strategy"] = "baseline";
  const std::set<std::string> keys = {trial_key("a", cell, 0, 0), trial_key("b", cell, 0, 0),
                                      trial_key("a", other, 0, 0), trial_key("a", cell, 1, 0),
                                      trial_key("a", cell, 0, 1)};
  EXPECT_EQ(keys.size(), 5U);
  const auto stored = json::parse(json(sample_trial()).dump()).get<TrialRecord>();
  EXPECT_EQ(trial_key("a", stored.cell, 0, 0), trial_key("a", cell, 0, 0));
}

TEST(ReadResult, KnowsItsOwn) {
  const TemporaryDirectory dir;
  EXPECT_THROW(read_result(dir.path()), ConfigError);
  write_atomically(dir / "result.json", old_result().dump());
  EXPECT_EQ(read_result(dir.path()).plan, kPlan);
  EXPECT_EQ(read_result(dir.path()).context.written, old_result()["context"]);
  EXPECT_EQ(read_result(dir.path()).context.host, "node7");
  for (const char* foreign :
       {"{\"context\": {}}", "[]", "{\"schema\": 3}", "{\"schema\": \"x/1\"}"}) {
    write_atomically(dir / "result.json", foreign);
    EXPECT_THROW(read_result(dir.path()), ConfigError) << foreign;
  }
  write_atomically(dir / "result.json", "{\"schema\": \"gradsync.result/2\"}");
  try {
    read_result(dir.path());
    FAIL() << "read a newer version";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("upgrade"));
  }
}

}  // namespace
}  // namespace gradsync::results

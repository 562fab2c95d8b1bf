// Records as files have them.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/base/errors.h"
#include "harness/watch/read/account_file.h"

namespace gradsync::watch {
namespace {

using account::AccountRecords;
using account::kSketchBuckets;

const std::string kStart =
    R"({"kind":"start","schema":"gradsync.watch_account/1","pid":7,"buckets":64,"every":10,"share":1.0})"
    "\n";

std::string sketch_text(const std::string& first) {
  std::string text = "[" + first;
  for (std::size_t b = 1; b < kSketchBuckets; ++b) text += ",0";
  return text + "]";
}

std::string parameter_line(const std::string& first) {
  return R"({"kind":"parameter","step":3,"optimizer":0,"index":1,"name":"w","dtype":"float32",)"
         R"("elements":10,"offset":5,"length":5,"gradient":)" +
         sketch_text(first) + R"(,"value":)" + sketch_text("2") +
         R"(,"contributions":[{"micro_batch":2,"is_older":true,"sketch":)" + sketch_text("1.5") +
         "}]}\n";
}

TEST(AccountRecords, AreReadLineByLine) {
  const AccountRecords records = parse_account(
      kStart + R"({"kind":"rank","rank":1,"world_size":2})" + "\n" + parameter_line("0.5") +
          R"({"kind":"step","step":3,"optimizer":0,"micro_batches":4,"loss_scale":8,)"
          R"("clippings":2,"is_used":false,"comm_hook":"a","tokens":[3,0],"places":[0,1],)"
          R"("functions":[0,0],"calls":[{"what":"clip_value","after":1,"file":"t.py","line":9}],)"
          R"("is_wrapped":true})" +
          "\n" + R"({"kind":"fault","sentence":"the account stopped: why"})" + "\n" + R"({"cut)",
      "a");
  EXPECT_EQ(records.rank, 1);
  EXPECT_EQ(records.parameters.at(0).offset, 5);
  EXPECT_EQ(records.parameters[0].gradient[0], 0.5);
  EXPECT_EQ(records.parameters[0].contributions.at(0).sketch[0], 1.5);
  EXPECT_TRUE(records.parameters[0].contributions[0].is_older);
  EXPECT_EQ(records.steps.at(0).loss_scale, 8);
  EXPECT_EQ(records.steps[0].comm_hook, "a");
  EXPECT_EQ(records.steps[0].tokens, (std::vector<std::int64_t>{3, 0}));
  EXPECT_EQ(records.steps[0].places, (std::vector<int>{0, 1}));
  EXPECT_EQ(records.steps[0].functions, (std::vector<int>{0, 0}));
  ASSERT_EQ(records.steps[0].calls.size(), 1U);
  EXPECT_EQ(records.steps[0].calls[0],
            (account::GradientCall{account::GradientCallKind::ClipValue, 1, "t.py", 9}));
  EXPECT_TRUE(records.steps[0].is_wrapped);
  EXPECT_EQ(records.faults.size(), 1U);
}

TEST(AccountRecords, OlderOnesKnowLess) {
  const AccountRecords records = parse_account(
      kStart + R"({"kind":"step","step":0,"optimizer":0,"micro_batches":1,"loss_scale":1,)"
               R"("clippings":0,"is_used":false})"
               "\n",
      "a");
  EXPECT_EQ(records.steps.at(0).comm_hook, "");
  EXPECT_TRUE(records.steps[0].tokens.empty());
  EXPECT_TRUE(records.steps[0].places.empty());
  EXPECT_TRUE(records.steps[0].calls.empty());
  EXPECT_FALSE(records.steps[0].is_wrapped);
}

// As where a trainer counts the operations of another model before it begins.
TEST(AccountRecords, ABackwardOfSomethingElseBeforeTheModelsOwnIsNoMicroBatch) {
  std::string parameter = parameter_line("1");
  parameter.replace(parameter.find("true"), 4, "false");
  const AccountRecords records = parse_account(
      kStart + parameter +
          R"({"kind":"step","step":3,"optimizer":0,"micro_batches":4,"loss_scale":1,)"
          R"("clippings":0,"is_used":false,"tokens":[0,0,5,6],"places":[0,1,2,2],)"
          R"("functions":[0,1,2,2],"calls":[{"what":"zero_grad","after":3,"file":"","line":0}]})"
          "\n",
      "a");
  EXPECT_EQ(records.parameters.at(0).contributions.at(0).micro_batch, 0);
  EXPECT_EQ(records.steps.at(0).micro_batches, 2);
  EXPECT_EQ(records.steps[0].tokens, (std::vector<std::int64_t>{5, 6}));
  EXPECT_EQ(records.steps[0].places, (std::vector<int>{2, 2}));
  EXPECT_EQ(records.steps[0].calls.at(0).after, 1);
}

TEST(AccountRecords, NullIsANumberThatIsNotFinite) {
  const AccountRecords records = parse_account(kStart + parameter_line("null"), "a");
  EXPECT_TRUE(std::isnan(records.parameters.at(0).gradient[0]));
}

TEST(AccountRecords, WhatIsNoSuchFileIsRefusedWithItsLine) {
  for (const auto& [line, complaint] : std::vector<std::pair<std::string, std::string>>{
           {R"({"kind":"surprise"})", "line 2"},
           {R"({"kind":"rank","rank":-1,"world_size":2})", "rank"},
           {R"({"kind":"fault"})", "sentence"},
           {R"({"kind":"step","step":0,"optimizer":0,"micro_batches":1,"loss_scale":1,)"
            R"("clippings":0,"is_used":false,"tokens":[-1]})",
            "tokens"},
           {"no JSON", "not valid JSON"}}) {
    try {
      parse_account(kStart + line + "\n", "a");
      FAIL() << line;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(complaint), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace gradsync::watch

#include "harness/watch/read/tracked_parameters.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"
#include "harness/watch/read/event.h"
#include "harness/watch/read/hook_events.h"

namespace gradsync::watch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

const std::string kFileStart =
    R"({"kind":"start","schema":"gradsync.watch_hook/1","pid":42,"python":"3.11.2"})"
    "\n";

std::string parameters_line(const std::string& name, int index, const std::string& owner) {
  return R"({"kind":"parameters","object":1,"name":"SGD","hardware":"CPU","parameters":[{"index":)" +
         std::to_string(index) + R"(,"name":")" + name +
         R"(","elements":320,"is_whole":true,"is_constant":false,"is_stepped":false,"owner":")" +
         owner +
         R"(","model":0,"group":""}],"file":"train.py","line":31,"gone_before":2})"
         "\n";
}

TEST(TrackedParameters, AreReadWithTheirOwnersAndHashes) {
  const RankEvents events = parse_hook_events(
      kFileStart + parameters_line("proxies", 0, "none") +
          R"({"kind":"hashes","object":1,"step":2,"is_last":false,"values":{"0":"771"},)"
          R"("samples":{"0":[0.5]},"took_s":0.001})"
          "\n" +
          parameters_line("scale", 1, "added"),
      "hook-42.jsonl");
  const TrackedOptimizer& optimizer = events.optimizers.at(1);
  EXPECT_EQ(optimizer.name, "SGD");
  EXPECT_EQ(optimizer.line, 31);
  EXPECT_EQ(optimizer.gone_before, 2);
  ASSERT_THAT(optimizer.parameters, SizeIs(2)) << "those that were added later, too";
  EXPECT_EQ(optimizer.parameters[0].name, "proxies");
  EXPECT_EQ(optimizer.parameters[0].owner, Owner::None);
  EXPECT_FALSE(optimizer.parameters[0].is_stepped);
  EXPECT_EQ(optimizer.parameters[1].owner, Owner::Added);
  ASSERT_THAT(optimizer.looks, SizeIs(1));
  EXPECT_EQ(optimizer.looks[0].step, 2);
  EXPECT_THAT(optimizer.looks[0].values, ElementsAre(Pair("0", "771")));
  EXPECT_THAT(optimizer.looks[0].samples, ElementsAre(Pair("0", ElementsAre(0.5))));
}

TEST(TrackedParameters, AnExchangeIsReadWithWhatItMoved) {
  const RankEvents events = parse_hook_events(
      kFileStart +
          R"({"kind":"exchange","name":"all_reduce","what":"copy","step":1,"calls":1,"bytes":1280,)"
          R"("value":"771","group":"","members":[{"object":1,"index":4}],"file":"train.py",)"
          R"("line":40})"
          "\n",
      "hook-42.jsonl");
  ASSERT_THAT(events.exchanges, SizeIs(1));
  EXPECT_EQ(events.exchanges[0].what, Exchange::What::Copy);
  EXPECT_EQ(events.exchanges[0].members.at(0).index, 4);
}

TEST(TrackedParameters, AnOwnerThatIsNotKnownIsRefused) {
  try {
    parse_hook_events(kFileStart + parameters_line("proxies", 0, "nobody"), "hook-42.jsonl");
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("hook-42.jsonl line 2: field 'parameters[0].owner'"));
  }
}

}  // namespace
}  // namespace gradsync::watch

#include "harness/watch/judge/flags.h"

#include <gmock/gmock.h>

#include "tests/harness/watch/made_job.h"

namespace gradsync::watch {
namespace {

using gradsync::test::MadeJob;

// Model 1 runs; what is set on others is set on modules.
TEST(Flags, AreToldByPlace) {
  MadeJob job;
  job.times(3, [](MadeJob& j) { j.flag(false, 12, kAllReduceFlag).forward().flag(true, 13); });
  job.flag(true, 12, kAllReduceFlag).flag(false, 15, "set_reshard_after_backward");
  RankEvents process = job.process();
  process.events.back().object = 7;
  const std::vector<Flag> flags = flags_of(process);
  ASSERT_EQ(flags.size(), 3U);
  EXPECT_EQ(flag_text(flags[0]),
            "set_requires_all_reduce on the model: 1 x True, 3 x False, train.py line 12");
  EXPECT_EQ(flag_text(flags[1]),
            "set_requires_gradient_sync on the model: 3 x True, train.py line 13");
  EXPECT_EQ(flag_text(flags[2]),
            "set_reshard_after_backward on modules of it: 1 x False, train.py line 15");
}

TEST(Flags, OfAPlaceThatNobodyKnows) {
  EXPECT_EQ(flag_text({"set_is_last_backward", true, "", 0, 0, 2}),
            "set_is_last_backward on the model: 2 x False");
}

}  // namespace
}  // namespace gradsync::watch

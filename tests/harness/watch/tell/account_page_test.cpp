// An account on a page and in a file.

#include <gtest/gtest.h>

#include "harness/watch/judge/watched.h"
#include "harness/watch/tell/pages.h"
#include "harness/watch/tell/watched_files.h"
#include "tests/harness/account/made_account.h"

namespace gradsync::watch {
namespace {

using test::MadeAccount;

TEST(GradientAccount, IsReadAsItWasWritten) {
  MadeAccount job;
  job.weight = [](int, int, int m) { return m == 3 ? 4.0 : 0.0; };
  Watched watched = summarize({});
  watched.account = account_of(job.records());
  const auto written = watch_json(watched);
  const Watched read = watched_from_json(written, "watched.json");
  EXPECT_EQ(watch_json(read), written);
  EXPECT_TRUE(is_off(*read.account));
  EXPECT_EQ(written.at("account").at("verdicts").at(0).at("kind"), "dropped");
}

TEST(AccountPage, HasTheMatrixAndTheVerdict) {
  MadeAccount job;
  job.weight = [](int, int, int m) { return m == 3 ? 4.0 : 0.0; };
  const std::string page = account_page(account_of(job.records()), 80);
  EXPECT_NE(page.find("| rank 1                 | 0.000 | 0.000 | 0.000 | 4.000 |"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("ACCOUNT: micro-batches 1 to 3 of 4 weigh 0: only the last counts"),
            std::string::npos);
}

TEST(AccountPage, OfALostAccountNoStepCounts) {
  account::GradientAccount account = account_of(MadeAccount{}.records());
  EXPECT_NE(account_page(account, 80).find("1 of 1 accounted"), std::string::npos);
  account.lost = {1};
  EXPECT_EQ(account_page(account, 80).find("accounted"), std::string::npos);
}

}  // namespace
}  // namespace gradsync::watch

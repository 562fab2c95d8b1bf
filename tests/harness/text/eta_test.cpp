#include "harness/text/eta.h"

#include <gmock/gmock.h>

namespace gradsync::text {
namespace {

TEST(Eta, IsUnknownUntilATrialIsDone) {
  const Eta eta({"a", "b"});
  EXPECT_FALSE(eta.remaining_s(0, 1.0, 1.0).has_value());
}

TEST(Eta, EachTrialTakesAsLongAsThoseOfItsCell) {
  Eta eta({"a", "b", "a", "b", "a"});
  eta.finished(0, 10);
  eta.finished(1, 2);
  // a, b, a are left: 10 + 2 + 10, of which 4 s are spent.
  EXPECT_DOUBLE_EQ(*eta.remaining_s(2, 4, 16), 18.0);
}

TEST(Eta, ACellNotSeenYetTakesAsLongAsAny) {
  Eta eta({"a", "a", "b"});
  eta.finished(0, 10);
  eta.finished(1, 20);
  EXPECT_DOUBLE_EQ(*eta.remaining_s(2, 0, 30), 15.0);
}

TEST(Eta, TimeBetweenTrialsIsAddedInProportion) {
  Eta eta({"a", "a"});
  eta.finished(0, 10);
  EXPECT_DOUBLE_EQ(*eta.remaining_s(1, 0, 15), 15.0);  // half as much again was spent on starting
}

TEST(Eta, IsNeverNegative) {
  Eta eta({"a", "a"});
  eta.finished(0, 10);
  EXPECT_DOUBLE_EQ(*eta.remaining_s(1, 25, 35), 0.0);
}

}  // namespace
}  // namespace gradsync::text

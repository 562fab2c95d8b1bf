// Another program, run to its end for what it says.
#include "harness/launch/program_output.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"

namespace gradsync::launch {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr double kLongS = 60;

TEST(ProgramOutput, HasBothStreamsAndTheStatusOfAShell) {
  const ProgramOutput output = output_of({"sh", "-c", "echo out; echo err >&2; exit 3"}, kLongS);
  EXPECT_EQ(output.status, 3);
  EXPECT_EQ(output.text, "out\nerr");
  EXPECT_EQ(output_of({"sh", "-c", "kill -9 $$"}, kLongS).status, 137);
  EXPECT_THAT([] { output_of({"/nonexistent/program"}, kLongS); },
              ThrowsMessage<EnvironmentError>(
                  HasSubstr("/nonexistent/program cannot be started: No such file")));
}

TEST(ProgramOutput, LeavesErrorsWhereOursAreIfAsked) {
  const auto output = output_of({"sh", "-c", "echo out; echo err >&2"}, kLongS, Errors::Ours);
  EXPECT_EQ(output.text, "out");
}

TEST(ProgramOutput, IsNotWaitedForForEver) {
  EXPECT_THAT(
      [] {
        output_of({"sleep", "1000"}, 0.05);
      },
      ThrowsMessage<EnvironmentError>(HasSubstr("sleep did not end within 0.05 s")));
}

}  // namespace
}  // namespace gradsync::launch

// Jobs that are made up, and the verdicts expected on them.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "harness/watch/judge/verdicts/verdict.h"
#include "tests/harness/watch/made_job.h"

namespace gradsync::watch {

using gradsync::test::MadeJob;

inline std::vector<Verdict> verdicts_on(const MadeJob& job) {
  const RankEvents process = job.process();
  const Steps steps = cut_into_steps(process.events);
  return judge(process, steps, count_steps(steps));
}

inline Verdict verdict_on(const MadeJob& job) {
  return verdicts_on(job).front();
}

// Four steps of what `step` adds, of a wrapped model.
template <typename Step>
MadeJob four_steps(Step step, MadeJob job = MadeJob()) {
  return job.wrap().times(4, step);
}

inline void synced(MadeJob& job) {
  job.forward().reducing();
}

inline void unsynced(MadeJob& job) {
  job.enter_no_sync().forward(1, "no_sync").backward().leave_no_sync();
}

inline void proper(MadeJob& job) {
  job.times(3, unsynced).forward().reducing().optimizer().zero_grad();
}

inline void baseline(MadeJob& job) {
  job.times(4, synced).optimizer().zero_grad();
}

inline void improper_micro_batch(MadeJob& job) {
  job.forward().enter_no_sync().reducing().leave_no_sync();
}

inline void expect_accused(const Verdict& verdict, VerdictKind kind) {
  EXPECT_EQ(verdict.kind, kind) << verdict.sentence << ": " << verdict.why;
  EXPECT_TRUE(verdict.fails);
}

// Expects that it is explained so, and that this is the line to change.
inline void expect_cause(const Verdict& verdict, Cause cause, int line) {
  EXPECT_EQ(verdict.cause, cause) << verdict.why;
  ASSERT_TRUE(verdict.change.has_value());
  EXPECT_EQ(verdict.change->line, line);
}

// Expects it of a usual step of so many micro-batches, of which so many are synchronized.
inline void expect_often(const Verdict& verdict, int synchronized, int micro_batches) {
  EXPECT_EQ(verdict.numbers.synchronized, synchronized);
  EXPECT_EQ(verdict.numbers.micro_batches, micro_batches);
}

inline void expect_good(const MadeJob& job) {
  const auto verdicts = verdicts_on(job);
  EXPECT_EQ(verdicts.front().kind, VerdictKind::OncePerStep)
      << verdicts.front().sentence << ": " << verdicts.front().why;
  for (const Verdict& verdict : verdicts) EXPECT_FALSE(verdict.fails) << verdict.sentence;
}

inline void expect_not_recognised(const MadeJob& job, Cause cause) {
  const Verdict verdict = verdict_on(job);
  EXPECT_EQ(verdict.kind, VerdictKind::NotRecognised) << verdict.sentence << ": " << verdict.why;
  EXPECT_EQ(verdict.cause, cause) << verdict.why;
  EXPECT_FALSE(verdict.fails);
}

}  // namespace gradsync::watch

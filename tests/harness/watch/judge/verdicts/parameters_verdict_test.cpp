// Covers: meant.cpp, passing_copies.cpp, replicas.cpp.
#include "harness/watch/judge/verdicts/parameters_verdict.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "harness/watch/judge/replicas.h"
#include "harness/watch/judge/verdicts/verdict_words.h"
#include "harness/watch/judge/watched.h"
#include "tests/harness/watch/made_job.h"

namespace gradsync::watch {
namespace {

using gradsync::test::MadeJob;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kRanks = 2;
constexpr std::int64_t kBytes = 1280;  // of the parameters that are exchanged

// What one rank had of a parameter, look by look: after so many steps, this value.
using Values = std::map<std::int64_t, std::string>;

struct Made {
  std::string name;
  Owner owner = Owner::Wrapper;
  std::vector<Values> of_ranks;
  bool is_constant = false;
  std::int64_t elements = 320;
  Meant meant = Meant::Nothing;
  std::string mark = "";
  bool changes = false;  // all of it, from look to look
  int stepped_by = -1;   // this rank alone, where it has another place; -1: all ranks
};

Made equal(const std::string& name, Owner owner = Owner::Wrapper) {
  const Values values{{0, "a"}, {1, "b"}, {2, "c"}, {4, "d"}};
  return {name, owner, {values, values}};
}

// Equal before the first `steps` looks are over, different from then on.
Made drifting(const std::string& name, Owner owner, std::int64_t from = 1) {
  Made made = equal(name, owner);
  for (auto& [step, value] : made.of_ranks[1]) {
    if (step >= from) value += "'";
  }
  return made;
}

Made own(const std::string& name, Owner owner = Owner::None) {
  return drifting(name, owner, 0);
}

class TrackedJob {
 public:
  TrackedJob& with(const Made& made) {
    made_.push_back(made);
    return *this;
  }
  TrackedJob& alone() {  // each rank reduces in a group of its own
    group_of_one_ = true;
    return *this;
  }
  TrackedJob& exchanging(const std::vector<std::vector<std::string>>& values_of_steps) {
    exchanged_ = values_of_steps;
    return *this;
  }
  TrackedJob& on(const std::vector<std::string>& hardware) {
    hardware_ = hardware;
    return *this;
  }
  // Without a wrapper; in steps beyond the first `reduced` nothing is reduced.
  TrackedJob& by_hand(Exchange::What what = Exchange::What::Gradient, int reduced = 5) {
    moves_ = what;
    reduced_ = reduced;
    return *this;
  }
  TrackedJob& sharding() {
    wrapper_ = kFullyShard;
    return *this;
  }
  TrackedJob& routing() {  // to experts
    routes_ = true;
    return *this;
  }
  // Other optimizers of one line, one after the other: each begins with one of these values, and
  // ranks go on from it with their own.
  TrackedJob& adapting(const std::vector<std::string>& values, bool are_dropped = true) {
    adapted_ = values;
    are_dropped_ = are_dropped;
    return *this;
  }
  TrackedJob& of_some() {  // of more ranks, two of which communicate
    world_size_ = 4;
    return *this;
  }
  std::vector<RankEvents> ranks() const {
    std::vector<RankEvents> ranks;
    for (int rank = 0; rank < kRanks; ++rank) ranks.push_back(rank_of(rank));
    return ranks;
  }
  std::vector<Verdict> verdicts() const { return summarize(ranks()).verdicts; }

 private:
  RankEvents rank_of(int rank) const {
    RankEvents events = reduced_ > 0 ? made_by_hand(rank) : made_by_wrapper(rank);
    const std::vector<int> all{0, 1};
    events.groups = {
        {"g", 5, group_of_one_ ? std::vector{rank} : all, "", GroupRole::DataParallel, true, ""}};
    for (Event& event : events.events) {
      if (event.kind == EventKind::Collective) event.object = events.groups.front().number;
    }
    TrackedOptimizer& optimizer = events.optimizers[1];
    optimizer.name = "SGD";
    optimizer.file = "/home/someone/train.py";
    optimizer.line = 31;
    optimizer.hardware = hardware_.at(static_cast<std::size_t>(rank));
    for (std::size_t i = 0; i < made_.size(); ++i) add(optimizer, i, rank);
    for (std::size_t i = 0; i < adapted_.size(); ++i) add_adapted(events, i, rank);
    for (std::size_t step = 0; step < exchanged_.size(); ++step) {
      events.exchanges.push_back({.name = "all_reduce",
                                  .what = moves_,
                                  .step = static_cast<std::int64_t>(step),
                                  .calls = 1,
                                  .bytes = kBytes,
                                  .value = exchanged_[step].at(static_cast<std::size_t>(rank)),
                                  .group = "",
                                  .members = {{1, 0}},
                                  .file = "/home/someone/train.py",
                                  .line = 40});
    }
    return events;
  }

  RankEvents made_by_wrapper(int rank) const {
    MadeJob job(rank, world_size_);
    job.wrapper = wrapper_;
    if (wrapper_ == kFullyShard) job.reduction = "reduce_scatter";
    job.wrap();
    job.times(5, [&](MadeJob& each) {
      each.forward();
      if (routes_) each.collective("all_to_all", 64);
      each.reducing().optimizer();
    });
    return job.process();
  }

  RankEvents made_by_hand(int rank) const {
    MadeJob job(rank);
    for (int step = 0; step < 5; ++step) {
      job.backward_of(kBytes);
      if (step < reduced_) job.collective("all_reduce", kBytes);
      if (routes_) job.collective("all_to_all", 64);
      job.optimizer();
    }
    return job.process();
  }

  void add(TrackedOptimizer& optimizer, std::size_t index, int rank) const {
    const Made& made = made_[index];
    const int place = static_cast<int>(index) + (made.stepped_by == rank ? 100 : 0);
    optimizer.parameters.push_back({.index = place,
                                    .name = made.name,
                                    .elements = made.elements,
                                    .is_whole = made.owner != Owner::Shard,
                                    .is_constant = made.is_constant,
                                    .is_stepped = made.stepped_by < 0 || made.stepped_by == rank,
                                    .owner = made.owner,
                                    .model = made.owner == Owner::None ? 0 : 1,
                                    .group = made.owner == Owner::None ? "" : "g",
                                    .meant = made.meant,
                                    .mark = made.mark,
                                    .hook_file = "/home/someone/train.py",
                                    .hook_line = 25});
    for (const auto& [step, value] : made.of_ranks.at(static_cast<std::size_t>(rank))) {
      HashLook& look = look_at(optimizer, step);
      look.values[std::to_string(place)] = value;
      // As far apart as there are steps.
      const double moved = made.changes || value.ends_with("'") ? 0.01 * step : 0.0;
      look.samples[std::to_string(place)] = {1.0 + moved, made.changes ? moved : 0.0};
    }
  }

  void add_adapted(RankEvents& events, std::size_t number, int rank) const {
    TrackedOptimizer& optimizer = events.optimizers[static_cast<std::int64_t>(number) + 2];
    optimizer.name = "SGD";
    optimizer.file = "/home/someone/train.py";
    optimizer.line = 50;
    // The name of the one before goes to the next one once that is made.
    if (are_dropped_ && number > 0) optimizer.gone_before = static_cast<int>(number) - 1;
    TrackedParameter& copy = optimizer.parameters.emplace_back();
    copy.name = "copy";
    copy.elements = 320;
    copy.is_whole = true;
    look_at(optimizer, 0).values["0"] = adapted_[number];
    look_at(optimizer, 1).values["0"] = fmt::format("{} of rank {}", adapted_[number], rank);
  }

  static HashLook& look_at(TrackedOptimizer& optimizer, std::int64_t step) {
    for (HashLook& look : optimizer.looks) {
      if (look.step == step) return look;
    }
    optimizer.looks.push_back(
        {.step = step, .is_last = false, .values = {}, .samples = {}, .took_s = 0});
    return optimizer.looks.back();
  }

  std::vector<Made> made_;
  std::vector<std::vector<std::string>> exchanged_;
  std::vector<std::string> hardware_{"A", "A"};
  bool group_of_one_ = false;
  Exchange::What moves_ = Exchange::What::Gradient;
  int reduced_ = 0;
  bool routes_ = false;
  std::string wrapper_ = kDdp;
  std::vector<std::string> adapted_;
  bool are_dropped_ = false;
  int world_size_ = kRanks;
};

std::vector<Fate> fates(const TrackedJob& job) {
  const std::vector<RankEvents> ranks = job.ranks();
  std::vector<const RankEvents*> events;
  for (const RankEvents& rank : ranks) events.push_back(&rank);
  std::vector<Fate> found;
  for (const ParameterFate& of : fates_of(events)) found.push_back(of.fate);
  return found;
}

std::vector<VerdictKind> kinds(const std::vector<Verdict>& verdicts) {
  std::vector<VerdictKind> found;
  for (const Verdict& verdict : verdicts) found.push_back(verdict.kind);
  return found;
}

TEST(Fates, FollowTheBitsOfEachParameter) {
  Made rejoins = equal("d");
  rejoins.of_ranks[1][1] = "b'";
  EXPECT_THAT(fates(TrackedJob()
                        .with(equal("a"))
                        .with(drifting("b", Owner::None, 2))
                        .with(own("c"))
                        .with(rejoins)),
              ElementsAre(Fate::Equal, Fate::Drifts, Fate::Own, Fate::Rejoins));
}

TEST(Fates, OfShardsThereAreNone) {
  EXPECT_THAT(fates(TrackedJob().with(drifting("a", Owner::Shard))), IsEmpty());
}

TEST(Fates, AConstantSaysNothingWhereOthersAreEachRanksOwn) {
  Made bias = drifting("bias", Owner::None);
  bias.is_constant = true;
  EXPECT_THAT(fates(TrackedJob().with(bias).with(own("weight"))),
              ElementsAre(Fate::Unknown, Fate::Own));
  EXPECT_THAT(fates(TrackedJob().with(bias).with(equal("weight"))),
              ElementsAre(Fate::Drifts, Fate::Equal));
  Made marked = bias;
  marked.meant = Meant::Replica;
  EXPECT_THAT(fates(TrackedJob().with(marked).with(own("weight"))),
              ElementsAre(Fate::Drifts, Fate::Own));
  EXPECT_THAT(fates(TrackedJob().with(bias).with(own("codes", Owner::Frozen))),
              ElementsAre(Fate::Drifts, Fate::Own));
  bias.owner = Owner::Wrapper;
  EXPECT_THAT(fates(TrackedJob().with(bias).with(own("weight"))),
              ElementsAre(Fate::Drifts, Fate::Own));
}

TEST(Fates, OnUnlikeHardwareADifferenceIsRoundingUntilItGrows) {
  const std::vector<std::string> unlike{"A", "B"};
  EXPECT_THAT(fates(TrackedJob().with(drifting("a", Owner::Wrapper, 4)).on(unlike)),
              ElementsAre(Fate::Rounds));
  Made grows = drifting("a", Owner::Wrapper);
  grows.of_ranks[0][100] = "z";
  grows.of_ranks[1][100] = "z'";
  EXPECT_THAT(fates(TrackedJob().with(grows).on(unlike)), ElementsAre(Fate::Drifts));
}

TEST(ParametersVerdict, NamesWhatNoWrapperHas) {
  const auto verdicts =
      TrackedJob().with(equal("a")).with(drifting("proxies", Owner::None)).verdicts();
  EXPECT_THAT(kinds(verdicts), ElementsAre(VerdictKind::ReplicasDrift, VerdictKind::OncePerStep));
  const Verdict& drift = verdicts.front();
  EXPECT_EQ(drift.cause, Cause::InNoWrapper);
  EXPECT_TRUE(drift.fails);
  EXPECT_THAT(drift.numbers.parameters, ElementsAre("`proxies`"));
  EXPECT_EQ(drift.numbers.step, 1);
  ASSERT_TRUE(drift.change.has_value());
  EXPECT_EQ(drift.change->line, 31) << "where the optimizer is made";
}

TEST(ParametersVerdict, WhatTheJobDoesNotShardIsToBeShardedAsTheRest) {
  const auto change = [](const TrackedJob& job) { return job.verdicts().front().change->what; };
  const TrackedJob job =
      TrackedJob().with(equal("a", Owner::Shard)).with(drifting("embed", Owner::None));
  EXPECT_EQ(change(TrackedJob(job).sharding()), words_of(Cause::InNoWrapper).other_change);
  EXPECT_EQ(change(job), words_of(Cause::InNoWrapper).change);
}

TEST(ParametersVerdict, NamesWhatTheWrapperWasNotToldInTime) {
  for (const auto& [owner, cause] : {std::pair{Owner::Added, Cause::AddedBehindWrap},
                                     std::pair{Owner::Ignored, Cause::WrapperIgnores}}) {
    const auto verdicts = TrackedJob().with(equal("a")).with(drifting("b", owner, 4)).verdicts();
    EXPECT_EQ(verdicts.front().cause, cause);
    EXPECT_TRUE(verdicts.front().fails);
    EXPECT_EQ(verdicts.front().numbers.step, 4);
    EXPECT_EQ(verdicts.front().numbers.equal_until, 2);
    EXPECT_EQ(verdicts.front().change->line, 5) << "where the model is wrapped";
  }
}

TEST(ParametersVerdict, ReplicasThatDriftThoughTheWrapperHasThemAreNotGood) {
  const auto verdicts = TrackedJob().with(drifting("a", Owner::Wrapper)).verdicts();
  EXPECT_THAT(kinds(verdicts), ElementsAre(VerdictKind::ReplicasDrift));
  EXPECT_EQ(verdicts.front().cause, Cause::DriftsThoughReduced);
  EXPECT_TRUE(verdicts.front().fails);
}

// The job changes it in its own way on each rank before the first look.
TEST(ParametersVerdict, WhatTheWrapperMadeEqualIsNoRanksOwn) {
  const auto job = TrackedJob().with(equal("a")).with(own("pruned", Owner::Wrapper));
  const auto verdicts = job.verdicts();
  EXPECT_EQ(verdicts.front().cause, Cause::DriftsThoughReduced);
  EXPECT_TRUE(verdicts.front().fails);
  EXPECT_EQ(verdicts.front().numbers.step, 0);
  Made without_looks = own("pruned", Owner::Wrapper);
  without_looks.of_ranks = {{}, {}};
  EXPECT_FALSE(TrackedJob().with(equal("a")).with(without_looks).verdicts().front().fails);
  const auto alone = TrackedJob(job).alone().verdicts();
  EXPECT_FALSE(alone.front().fails) << "an expert's of each rank";
}

TEST(ParametersVerdict, WithoutAReplicaNobodyIsAccused) {
  const auto verdicts = TrackedJob().with(drifting("a", Owner::None)).verdicts();
  EXPECT_THAT(kinds(verdicts), ElementsAre(VerdictKind::OncePerStep, VerdictKind::ReplicasDrift));
  EXPECT_FALSE(verdicts.back().fails);
  EXPECT_THAT(verdicts.back().why, IsEmpty());
}

TEST(ParametersVerdict, CopiesThatEachRankTrainsForAWhileAreNotAccused) {
  const auto job = [] { return TrackedJob().with(equal("a")); };  // of values a, b, c and d
  const std::vector<std::string> copies{"a", "a", "b", "z", "c"};
  EXPECT_THAT(kinds(job().adapting(copies).verdicts()), ElementsAre(VerdictKind::OncePerStep));
  for (TrackedJob other : {
           job().adapting(copies, false),              // an ensemble
           job().adapting({"a", "b", "c", "d"}),       // two were gone when the last one was made
           job().adapting({"x", "y", "z", "a", "b"}),  // folds, some of which begin alike
           job().adapting({"a", "a", "b", "a of rank 0", "c"})  // one that goes on
       }) {
    const Verdict drift = other.verdicts().front();
    EXPECT_EQ(drift.cause, Cause::InNoWrapper);
    EXPECT_TRUE(drift.fails);
    EXPECT_EQ(drift.change->line, 50);
  }
  const Verdict of_model =
      job().with(drifting("b", Owner::None)).adapting(copies).verdicts().front();
  EXPECT_TRUE(of_model.fails);
  EXPECT_THAT(of_model.numbers.parameters, ElementsAre("`b`"));
}

TEST(ParametersVerdict, ExpertsThatBeganAlikeAreNotAccused) {
  const auto verdicts =
      TrackedJob().with(equal("a")).with(drifting("expert", Owner::None)).routing().verdicts();
  EXPECT_FALSE(verdicts.front().fails);
  EXPECT_FALSE(verdicts.back().fails);
}

TEST(ParametersVerdict, WhereWhatIsTheirOwnBeganApartAReplicaIsOne) {
  const auto job = [](bool is_constant) {
    Made drift = drifting("factor", Owner::None);
    drift.is_constant = is_constant;
    return TrackedJob().with(equal("a")).with(own("expert")).with(drift).routing().verdicts();
  };
  EXPECT_EQ(job(false).front().cause, Cause::InNoWrapper);
  EXPECT_TRUE(job(false).front().fails);
  EXPECT_FALSE(job(true).front().fails);
}

const std::vector<std::vector<std::string>> kTwice{{"x", "y"}, {"z", "w"}};

TEST(ParametersVerdict, ReplicasThatDriftThoughEachStepReducesAreAccused) {
  const auto job = [] {
    return TrackedJob().with(drifting("a", Owner::None, 4)).exchanging(kTwice);
  };
  const auto verdicts = job().by_hand().verdicts();
  EXPECT_THAT(kinds(verdicts), ElementsAre(VerdictKind::ReplicasDrift, VerdictKind::OncePerStep));
  EXPECT_EQ(verdicts.front().cause, Cause::DriftsThoughExchanged);
  EXPECT_TRUE(verdicts.front().fails);
  for (TrackedJob other : {job().by_hand(Exchange::What::Gradient, 3),
                           job().by_hand(Exchange::What::Parameter), job().by_hand().routing()}) {
    EXPECT_FALSE(other.verdicts().front().fails);
  }
}

TEST(ParametersVerdict, ReplicasThatBeginApartAreAccusedWhereTheirGradientsAreReduced) {
  const auto verdicts = TrackedJob().with(own("a")).exchanging(kTwice).by_hand().verdicts();
  EXPECT_EQ(verdicts.front().cause, Cause::BeganApart);
  EXPECT_TRUE(verdicts.front().fails);
  EXPECT_EQ(verdicts.front().change->line, 31) << "where the optimizer is made";
  EXPECT_FALSE(TrackedJob().with(own("a")).by_hand().verdicts().front().fails);
}

TEST(ParametersVerdict, ReplicasOfAnOuterOptimizerThatBeginApartAreAccused) {
  const auto job = [](const Made& made) {
    return TrackedJob().with(made).exchanging(kTwice).by_hand(Exchange::What::OuterGradient, 1);
  };
  const Verdict apart = job(own("a")).verdicts().front();
  EXPECT_EQ(apart.cause, Cause::BeganApart);
  EXPECT_TRUE(apart.fails);
  const Made inner = drifting("b", Owner::None);
  for (TrackedJob other :
       {job(own("a")).routing(), job(inner), job(equal("a", Owner::None)).with(inner)}) {
    EXPECT_FALSE(other.verdicts().front().fails);
  }
}

TEST(ParametersVerdict, WhatOneRankStepsAndDoesNotSendToOthersIsNamed) {
  const auto job = [](Made made, int stepped_by = 1) {
    made.stepped_by = stepped_by;
    return TrackedJob().with(made).exchanging(kTwice);
  };
  const Made stale = drifting("middle", Owner::None);
  const Verdict drift = job(stale).by_hand().verdicts().front();
  EXPECT_EQ(drift.cause, Cause::SteppedBySome);
  EXPECT_TRUE(drift.fails);
  EXPECT_EQ(drift.change->line, 31) << "where the optimizer is made";
  EXPECT_THAT(drift.numbers.parameters, ElementsAre("`middle`"));
  EXPECT_THAT(kinds(job(equal("middle", Owner::None)).by_hand().verdicts()),
              ElementsAre(VerdictKind::OncePerStep));
  EXPECT_THAT(kinds(job(stale, 2).by_hand().verdicts()), ElementsAre(VerdictKind::OncePerStep))
      << "no rank steps it";
  EXPECT_FALSE(job(stale).by_hand().routing().verdicts().front().fails) << "a stage's, perhaps";
  EXPECT_FALSE(job(stale).by_hand(Exchange::What::Parameter).verdicts().front().fails);
}

TEST(ParametersVerdict, WhatIsLeftOutOfAnAverageNowAndThenMayBeEachRanksOwn) {
  Made averaged = equal("a", Owner::None);
  averaged.of_ranks[1][1] += "'";
  const auto verdicts = TrackedJob()
                            .with(averaged)
                            .with(drifting("head", Owner::None))
                            .exchanging(kTwice)
                            .by_hand(Exchange::What::Parameter, 2)
                            .verdicts();
  EXPECT_EQ(verdicts[1].cause, Cause::InNoWrapper);
  EXPECT_FALSE(verdicts[1].fails);
}

constexpr std::int64_t kMoreThanABucket = 2000;  // elements

Made meant(Meant what, const std::string& mark = "") {
  Made made = drifting("norm", Owner::None);
  made.is_constant = true;
  made.meant = what;
  made.mark = mark;
  return made;
}

TEST(ParametersVerdict, WhatTheJobMarksAsAReplicaIsOneThoughItIsConstant) {
  const auto job = [](const std::string& mark) {
    const Meant what = mark.empty() ? Meant::Nothing : Meant::Replica;
    return TrackedJob().with(own("columns")).with(meant(what, mark));
  };
  const Verdict drift = job("sequence_parallel").verdicts().front();
  EXPECT_EQ(drift.cause, Cause::MarkedAsReplica);
  EXPECT_TRUE(drift.fails);
  EXPECT_EQ(drift.change->line, 31) << "where the optimizer is made";
  EXPECT_THAT(drift.why, HasSubstr("`sequence_parallel`"));
  EXPECT_FALSE(job("").verdicts().front().fails);
  EXPECT_FALSE(job("sequence_parallel").routing().verdicts().front().fails) << "a stage's, perhaps";
  EXPECT_FALSE(job("sequence_parallel").of_some().verdicts().front().fails) << "another model's";
}

TEST(ParametersVerdict, HooksThatNeverReduceAreNamed) {
  for (const auto& [what, cause] : {std::pair{Meant::Hooked, Cause::HookNeverReduces},
                                    std::pair{Meant::HookedCopy, Cause::HookOnACopy}}) {
    Made hooked = meant(what);
    EXPECT_FALSE(TrackedJob().with(hooked).verdicts().front().fails) << "a bucket may have it";
    hooked.elements = kMoreThanABucket;
    const Verdict drift = TrackedJob().with(hooked).verdicts().front();
    EXPECT_EQ(drift.cause, cause);
    EXPECT_TRUE(drift.fails);
    EXPECT_EQ(drift.change->line, 25) << "where the hook is registered";
  }
}

TEST(ParametersVerdict, WhatTheJobMarksAsEachRanksOwnIsNotAccused) {
  const auto job = [](Meant what) {
    Made expert = drifting("expert", Owner::None);
    expert.meant = what;
    return TrackedJob().with(equal("a")).with(expert).verdicts();
  };
  EXPECT_TRUE(job(Meant::Nothing).front().fails);
  EXPECT_FALSE(job(Meant::Own).front().fails);
}

Made changing(std::int64_t elements = kMoreThanABucket) {
  Made made = own("local", Owner::Frozen);
  made.elements = elements;
  made.changes = true;
  return made;
}

TEST(ParametersVerdict, AWeightThatEachRankChangesByItselfIsNamed) {
  const Verdict drift = TrackedJob().with(equal("a")).with(changing()).verdicts().front();
  EXPECT_EQ(drift.cause, Cause::ChangedInNoOptimizer);
  EXPECT_TRUE(drift.fails);
  EXPECT_EQ(drift.numbers.step, 1) << "the wrapper made it equal";
  EXPECT_EQ(drift.change->line, 5) << "where the model is wrapped";
}

TEST(ParametersVerdict, WhatRanksMayMeanToChangeApartIsNotAccused) {
  Made queue = changing();
  queue.changes = false;
  for (const auto& verdicts : {
           TrackedJob().with(equal("a")).with(queue).verdicts(),
           TrackedJob().with(equal("a")).with(changing(32)).routing().verdicts(),
           TrackedJob().with(changing()).verdicts(),
       }) {
    const auto drift = std::ranges::find(verdicts, Cause::ChangedInNoOptimizer, &Verdict::cause);
    ASSERT_NE(drift, verdicts.end());
    EXPECT_FALSE(drift->fails);
  }
}

TEST(ParametersVerdict, WhatIsEachRanksOwnIsSaid) {
  const auto verdicts = TrackedJob().with(equal("a")).with(own("expert")).verdicts();
  EXPECT_THAT(kinds(verdicts), ElementsAre(VerdictKind::OncePerStep, VerdictKind::OwnParameters));
  EXPECT_THAT(kinds(TrackedJob().with(own("stage")).verdicts()),
              ElementsAre(VerdictKind::OncePerStep));
}

TEST(ParametersVerdict, BuffersThatNeverWereEqualAreSaidToo) {
  const auto verdicts = TrackedJob().with(equal("a")).with(own("mean", Owner::Buffer)).verdicts();
  EXPECT_THAT(kinds(verdicts), ElementsAre(VerdictKind::OncePerStep, VerdictKind::BuffersDiffer));
}

TEST(ParametersVerdict, BuffersAreSaid) {
  const auto verdicts =
      TrackedJob().with(equal("a")).with(drifting("mean", Owner::Buffer)).verdicts();
  EXPECT_THAT(kinds(verdicts), ElementsAre(VerdictKind::OncePerStep, VerdictKind::BuffersDiffer));
  EXPECT_FALSE(verdicts.back().fails);
}

TEST(ParametersVerdict, AveragesNowAndThenAreSaidWithTheirPace) {
  Made averaged = equal("a");
  for (const std::int64_t step : {5, 10, 20}) {
    averaged.of_ranks[0][step] = averaged.of_ranks[1][step] = "s" + std::to_string(step);
  }
  for (const std::int64_t step : {1, 2, 4}) averaged.of_ranks[1][step] += "'";
  const auto verdicts = TrackedJob().with(averaged).verdicts();
  EXPECT_THAT(kinds(verdicts), ElementsAre(VerdictKind::OncePerStep, VerdictKind::AveragedAtTimes));
  EXPECT_EQ(verdicts.back().numbers.step, 5);
}

TEST(ParametersVerdict, WhatIsReducedTwiceIsExcess) {
  const auto job = [](const std::vector<std::vector<std::string>>& values) {
    return TrackedJob().with(equal("a")).exchanging(values).verdicts();
  };
  const auto verdicts = job({{"x", "x"}, {"y", "y"}});
  EXPECT_THAT(kinds(verdicts), ElementsAre(VerdictKind::ReducedTwice));
  EXPECT_EQ(verdicts.front().numbers.bytes, 1280);
  EXPECT_EQ(verdicts.front().change->line, 40);
  EXPECT_TRUE(verdicts.front().fails);
  EXPECT_THAT(kinds(job({{"x", "x"}, {"y", "z"}})), ElementsAre(VerdictKind::OncePerStep))
      << "ranks had other gradients";
  EXPECT_THAT(kinds(job({{"x", "x"}})), ElementsAre(VerdictKind::OncePerStep)) << "once is chance";
}

}  // namespace
}  // namespace gradsync::watch

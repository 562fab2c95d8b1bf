// What a job reserves where its profile follows single tensors: the model of the allocator, fed by
// hand with what each wrapper and the model's blocks make and free.
//
// Covers: ddp_job.cpp, fully_shard_job.cpp, shard_group.cpp.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "harness/measure/caching_allocator_model.h"
#include "harness/memory/jobs/job_memory.h"

namespace gradsync::memory::reserved {
namespace {

using models::BlockChange;
using models::MemoryProfile;
using models::PassEvent;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kWeight = 3 * kMiB;
constexpr std::int64_t kSaved = 12 * kMiB;
constexpr std::int64_t kTemporary = 5 * kMiB;
constexpr std::int64_t kFrozen = 40 * kMiB;
constexpr std::int64_t kLoss = 4;
constexpr std::int64_t kBatch = 700;

PassEvent in(std::size_t module) {
  return {PassEvent::Kind::Enter, module};
}
PassEvent out(std::size_t module) {
  return {PassEvent::Kind::Leave, module};
}
PassEvent gradient(std::size_t parameter) {
  return {PassEvent::Kind::Gradient, parameter, 0, kWeight};
}

BlockChange made(std::int64_t bytes) {
  return {bytes};
}
BlockChange freed(std::int64_t bytes, std::size_t age = 0) {
  return {bytes, false, age};
}

// Two blocks, of which each saves a tensor, and makes a gradient beside a temporary one.
MemoryProfile two_blocks() {
  MemoryProfile profile;
  profile.dtype = "float32";
  profile.batch_bytes = kBatch;
  profile.batch_tensors_bytes = {kBatch};
  profile.parameters = {{"a.weight", {kWeight / 4}}, {"b.weight", {kWeight / 4}}};
  profile.modules = {{"", "Model"}, {"a", "Block"}, {"b", "Block"}};
  profile.changes = {{made(kSaved)},
                     {made(kLoss)},
                     {made(kTemporary), made(kWeight), freed(kTemporary)},
                     {freed(kSaved)},
                     {freed(kSaved), freed(kLoss)},
                     {freed(kWeight), freed(kSaved)},
                     {freed(kWeight), freed(kSaved), freed(kLoss)}};
  const auto hold = [](std::size_t changes, std::int64_t high, std::int64_t net) {
    return PassEvent{PassEvent::Kind::Hold, changes, high, net};
  };
  const PassEvent save = hold(0, kSaved, kSaved);
  const PassEvent differentiate = hold(2, kTemporary + kWeight, kWeight);
  profile.forward = {
      in(0), in(1), save, out(1), in(2), save, out(2), out(0), hold(1, kLoss, kLoss)};
  profile.backward_first = {in(0),  in(2), differentiate, gradient(1), hold(3, 0, -kSaved),
                            out(2), in(1), differentiate, gradient(0), hold(4, 0, -kSaved - kLoss)};
  profile.backward_later = {
      in(0),  in(2), differentiate, gradient(1), hold(5, 0, -kWeight - kSaved),
      out(2), in(1), differentiate, gradient(0), hold(6, 0, -kWeight - kSaved - kLoss)};
  return profile;
}

// The allocator of a stream. A tensor has a name here.
class Fed {
 public:
  void make(const std::string& name, std::int64_t bytes) {
    names_[name] = ++last_;
    EXPECT_TRUE(allocator_.allocate(last_, bytes));
  }
  void free(const std::string& name) { allocator_.free(names_.at(name)); }
  std::int64_t reserved() const { return allocator_.peak_reserved_bytes(); }

 private:
  measure::CachingAllocatorModel allocator_;
  std::map<std::string, std::uint64_t> names_;
  std::uint64_t last_ = 0;
};

void forward(Fed& fed) {
  fed.make("saved a", kSaved);
  fed.make("saved b", kSaved);
  fed.make("loss", kLoss);
}
void make_gradient(Fed& fed, const std::string& name) {
  fed.make("temporary", kTemporary);
  fed.make(name, kWeight);
  fed.free("temporary");
}
void backward(Fed& fed, bool adds) {
  make_gradient(fed, adds ? "added b" : "gradient b");
  if (adds) fed.free("added b");
  fed.free("saved b");
  make_gradient(fed, adds ? "added a" : "gradient a");
  if (adds) fed.free("added a");
  fed.free("saved a");
  fed.free("loss");
}
void make_moments(Fed& fed, std::int64_t bytes) {
  for (const std::string parameter : {"a", "b"}) {
    fed.make("step " + parameter, 4);
    fed.make("mean " + parameter, bytes);
    fed.make("square " + parameter, bytes);
  }
}

void play_step(Fed& fed, int step, int micro_batches) {
  for (int i = 0; i < micro_batches; ++i) {
    forward(fed);
    backward(fed, i > 0);
  }
  if (step == 0) make_moments(fed, kWeight);
  fed.free("gradient a");
  fed.free("gradient b");
}

Fed model_alone(int micro_batches) {
  Fed fed;
  fed.make("a", kWeight);
  fed.make("b", kWeight);
  fed.make("batch", kBatch);
  for (int step = 0; step < 3; ++step) {
    play_step(fed, step, micro_batches);
  }
  return fed;
}

MemoryProfile of_sums() {
  MemoryProfile profile = two_blocks();
  profile.changes.clear();
  return profile;
}

TEST(ReservedByJob, TheModelAlone) {
  const DdpJob alone{.has_reducer = false};
  EXPECT_EQ(ddp_job_memory(alone, two_blocks(), {true}).peak_reserved_bytes,
            model_alone(1).reserved());
  EXPECT_EQ(ddp_job_memory(alone, two_blocks(), {false, true}).peak_reserved_bytes,
            model_alone(2).reserved());
}

// The whole model in a message, one bucket of what trains, and then one for each gradient: both are
// larger than the first may be. They are made before the next forward, whether it synchronizes or
// not. The message leaves a segment that what forward saves shares.
Fed ddp(const std::vector<bool>& syncs) {
  Fed fed;
  fed.make("a", kWeight);
  fed.make("b", kWeight);
  fed.make("frozen", kFrozen);
  fed.make("batch", kBatch);
  fed.make("message", 2 * kWeight + kFrozen);
  fed.free("message");
  fed.make("bucket", 2 * kWeight);
  for (int step = 0; step < 3; ++step) {
    if (step == 1) {
      fed.free("bucket");
      fed.make("bucket 1", kWeight);
      fed.make("bucket 2", kWeight);
    }
    play_step(fed, step, static_cast<int>(syncs.size()));
  }
  return fed;
}

TEST(ReservedByJob, DdpPacksTheModelAndRebuildsItsBuckets) {
  MemoryProfile profile = two_blocks();
  profile.parameters.push_back({"frozen", {kFrozen / 4}, false});
  for (const std::vector<bool>& syncs : {std::vector<bool>{true}, {false, true}}) {
    EXPECT_EQ(ddp_job_memory({}, profile, syncs).peak_reserved_bytes, ddp(syncs).reserved());
  }
}

// Two ranks. Buffers that are gathered into, and what is reduced, are of streams of their own.
TEST(ReservedByJob, FullyShardHasThreeStreams) {
  Fed fed;
  Fed gather;
  Fed reduce;
  for (const std::string unit : {"a", "b"}) {
    fed.make("whole", kWeight);
    fed.make("shard " + unit, kWeight / 2);
    fed.free("whole");
  }
  fed.make("batch", kBatch);
  for (int step = 0; step < 3; ++step) {
    gather.make("a", kWeight);
    fed.make("gathered a", kWeight);
    fed.make("saved a", kSaved);
    fed.free("gathered a");
    gather.make("b", kWeight);
    gather.free("a");
    fed.make("gathered b", kWeight);
    fed.make("saved b", kSaved);
    fed.free("gathered b");
    gather.free("b");
    fed.make("loss", kLoss);
    gather.make("b", kWeight);
    fed.make("gathered b", kWeight);
    gather.free("b");
    gather.make("a", kWeight);
    make_gradient(fed, "gradient b");
    fed.free("saved b");
    fed.free("gathered b");
    fed.make("reduced b", kWeight);
    reduce.make("b", kWeight / 2);
    fed.free("gradient b");
    fed.make("gathered a", kWeight);
    gather.free("a");
    make_gradient(fed, "gradient a");
    fed.free("saved a");
    fed.free("loss");
    fed.free("gathered a");
    fed.free("reduced b");
    fed.make("reduced a", kWeight);
    reduce.make("a", kWeight / 2);
    fed.free("gradient a");
    fed.free("reduced a");
    if (step == 0) make_moments(fed, kWeight / 2);
    reduce.free("a");
    reduce.free("b");
  }
  const FullyShardJob job{.ranks = 2, .backend_copies = false, .units = {1, 2}};
  const StepMemory memory = fully_shard_job_memory(job, two_blocks(), {true});
  EXPECT_EQ(memory.peak_reserved_bytes, fed.reserved() + gather.reserved() + reduce.reserved());
  FullyShardJob copying = job;
  copying.backend_copies = true;
  EXPECT_EQ(fully_shard_job_memory(copying, two_blocks(), {true}).peak_reserved_bytes,
            memory.peak_reserved_bytes)
      << "gloo copies to the host";
}

// The same bytes, of the same kinds, at the same place: tensors one by one add up to the sums.
TEST(ReservedByJob, PeaksAreThoseOfSumsWhichReserveNothing) {
  for (const std::vector<bool>& syncs : {std::vector<bool>{true}, {false, true}, {true, true}}) {
    for (const bool view : {false, true}) {
      const DdpJob job{.gradient_as_bucket_view = view};
      StepMemory followed = ddp_job_memory(job, two_blocks(), syncs);
      EXPECT_TRUE(followed.peak_reserved_bytes);
      followed.peak_reserved_bytes.reset();
      EXPECT_EQ(followed, ddp_job_memory(job, of_sums(), syncs));
    }
    for (const auto& [reduce_bytes, reshards] :
         {std::pair{4, true}, std::pair{4, false}, std::pair{8, true}}) {
      const FullyShardJob job{.ranks = 2,
                              .reduce_bytes = reduce_bytes,
                              .reshard_after_forward = reshards,
                              .reshard_after_backward = reshards,
                              .units = {1, 2}};
      StepMemory followed = fully_shard_job_memory(job, two_blocks(), syncs);
      followed.peak_reserved_bytes.reset();
      EXPECT_EQ(followed, fully_shard_job_memory(job, of_sums(), syncs));
    }
  }
}

// What was saved has the size of the gradient, and is freed first: the older of the two.
TEST(ReservedByJob, AGradientOfTheSizeOfWhatIsFreedStays) {
  MemoryProfile profile;
  profile.parameters = {{"weight", {kWeight / 4}}};
  profile.modules = {{"", "Model"}};
  profile.batch_tensors_bytes = {kBatch};
  profile.changes = {
      {made(kWeight)}, {made(kWeight), freed(kWeight, 1)}, {made(kWeight)}, {freed(kWeight)}};
  profile.forward = {in(0), {PassEvent::Kind::Hold, 0, kWeight, kWeight}};
  profile.backward_first = {{PassEvent::Kind::Hold, 1, kWeight, 0}, gradient(0)};
  profile.backward_later = {{PassEvent::Kind::Hold, 2, kWeight, kWeight},
                            gradient(0),
                            {PassEvent::Kind::Hold, 3, 0, -kWeight},
                            {PassEvent::Kind::Hold, 3, 0, -kWeight}};
  const StepMemory memory = ddp_job_memory({.has_reducer = false}, profile, {false, true});
  EXPECT_EQ(bytes_of(memory.highest_by_category, measure::MemoryCategory::UnshardedGradient),
            kWeight);
  EXPECT_EQ(bytes_of(memory.highest_by_category, measure::MemoryCategory::Activation), 2 * kWeight);
}

}  // namespace
}  // namespace gradsync::memory::reserved

// What the formulas say a step holds, against what the meter counts: peak, composition and the most
// of each category, byte for byte, for every model that tells its footprint.
// Covers: ddp_memory.cpp, host_copies.cpp, host_optimizer.cpp, memory_formula.cpp,
// bert_footprint.cpp, footprint.cpp,
// mixtral_footprint.cpp, mlp_footprint.cpp, paced_footprint.cpp.
#include <ATen/ATen.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/base/build_info.h"
#include "harness/measure/memory.h"
#include "harness/sync/backward.h"
#include "harness/sync/ddp.h"
#include "harness/sync/ddp_memory.h"
#include "harness/sync/fsdp/fsdp.h"
#include "harness/sync/fsdp/memory_formula.h"
#include "harness/sync/host_optimizer.h"
#include "harness/sync/recomputation.h"
#include "harness/sync/strategies/strategy.h"
#include "models/bert.h"
#include "models/footprints.h"
#include "models/frozen_units.h"
#include "models/mixtral.h"
#include "models/mlp.h"
#include "models/paced.h"
#include "tests/harness/sync/ranks.h"
#include "tests/harness/sync/toy_layers.h"

namespace gradsync::test {
namespace {

using measure::MemoryCategory;
using models::Footprint;
using models::MicroBatchShape;
using models::UnitLevers;
using sync::FsdpOptions;
using sync::Offload;
using sync::StepMemory;

// A model, and what it says of itself.
struct Subject {
  std::string name;
  // Of the levers, the rank of its updates alone is the model's.
  std::function<std::shared_ptr<models::Model>(const UnitLevers&)> make;
  std::function<Footprint(const MicroBatchShape&, const UnitLevers&)> footprint;
};

models::BertConfig small_bert() {
  return {.layers = 3,
          .hidden = 24,
          .heads = 3,
          .intermediate = 56,
          .vocabulary = 211,
          .positions = 40};
}

// 5 experts do not divide the choices, so some see a token more.
models::MixtralConfig small_mixtral() {
  return {.layers = 3,
          .hidden = 48,
          .heads = 4,
          .key_value_heads = 2,
          .intermediate = 72,
          .experts = 5,
          .vocabulary = 211};
}

models::Profile small_profile() {
  return {.name = "small",
          .about = "",
          .layers = {{"a", 0, 0, {{"a.w", {7, 30}}, {"a.b", {11}}}},
                     {"b", 0, 0, {}},
                     {"c", 0, 0, {{"c.w", {300}}}}},
          .optimizer_s = 0,
          .buffers = {{"positions", {64}}, {"types", {5}}},
          .memory = {}};
}

// The same, as if recorded: what c makes its backward lets go in part, and a's keeps the rest.
models::Profile recorded_profile() {
  using Kind = models::PassEvent::Kind;
  models::Profile profile = small_profile();
  models::MemoryProfile& memory = profile.memory.emplace();
  memory.dtype = "float32";
  for (const models::ProfileLayer& layer : profile.layers) {
    for (const models::ProfileTensor& tensor : layer.parameters) {
      memory.parameters.push_back({tensor.name, tensor.shape});
    }
  }
  for (const char* name : {"", "a", "b", "c"}) memory.modules.push_back({name, "Layer"});
  memory.forward = {{Kind::Enter, 0},
                    {Kind::Hold, 0, 700, 300},
                    {Kind::Enter, 1},
                    {Kind::Hold, 0, 4000, 1000},
                    {Kind::Leave, 1},
                    {Kind::Enter, 3},
                    {Kind::Hold, 0, 9000, 8000},
                    {Kind::Hold, 0, 60, -500}};
  memory.backward_first = {{Kind::Hold, 0, 5000, -2000}, {Kind::Gradient, 2, 0, 1200},
                           {Kind::Hold, 0, 3000, -1000}, {Kind::Gradient, 1, 0, 44},
                           {Kind::Hold, 0, 2000, -1500}, {Kind::Gradient, 0, 0, 840},
                           {Kind::Hold, 0, 6000, -2216}};
  return profile;
}

std::vector<Subject> subjects() {
  return {{"mlp", [](const UnitLevers&) { return std::make_shared<models::Mlp>(1, at::kCPU); },
           models::mlp_footprint},
          {"bert",
           [](const UnitLevers& levers) {
             return std::make_shared<models::BertForSequenceClassification>(
                 small_bert(), 1, at::kCPU, levers.lora_rank);
           },
           [](const MicroBatchShape& shape, const UnitLevers& levers) {
             return *bert_footprint(small_bert(), shape, levers);
           }},
          {"mixtral",
           [](const UnitLevers&) {
             models::ModelOptions options;
             options.balanced_routing = true;
             return std::make_shared<models::MixtralForCausalLM>(small_mixtral(), options);
           },
           [](const MicroBatchShape& shape, const UnitLevers& levers) {
             return mixtral_footprint(small_mixtral(), shape, levers);
           }},
          {"paced",
           [](const UnitLevers&) {
             return std::make_shared<models::PacedModel>(
                 small_profile(), 2, models::host_pace(steady_clock()), at::kCPU);
           },
           [](const MicroBatchShape&, const UnitLevers&) {
             return paced_footprint(small_profile(), 2);
           }},
          {"paced replay",
           [](const UnitLevers&) {
             return std::make_shared<models::PacedModel>(
                 recorded_profile(), 1, models::host_pace(steady_clock()), at::kCPU);
           },
           [](const MicroBatchShape&, const UnitLevers&) {
             return paced_footprint(recorded_profile(), 1);
           }}};
}

// Those whose units may be checkpointed and frozen.
std::vector<Subject> subjects_with_units() {
  std::vector<Subject> some = subjects();
  std::erase_if(some, [](const Subject& subject) { return subject.name.starts_with("paced"); });
  return some;
}

Subject bert() {
  std::vector<Subject> all = subjects();
  std::erase_if(all, [](const Subject& subject) { return subject.name != "bert"; });
  return all.at(0);
}

Subject bert_with_sdpa() {
  const auto config = [] {
    models::BertConfig sdpa = small_bert();
    sdpa.attention = models::AttentionImplementation::Sdpa;
    return sdpa;
  };
  return {"bert with sdpa",
          [=](const UnitLevers& levers) {
            return std::make_shared<models::BertForSequenceClassification>(config(), 1, at::kCPU,
                                                                           levers.lora_rank);
          },
          [=](const MicroBatchShape& shape, const UnitLevers& levers) {
            return *bert_footprint(config(), shape, levers);
          }};
}

// What all points have in common.
struct Point {
  MicroBatchShape shape;
  std::vector<bool> syncs;
  UnitLevers levers = {};
  bool optimizer_in_backward = false;
  bool master_weights = false;
  Offload offload = Offload::None;

  std::string words() const {
    return fmt::format(
        "{} x {}, syncs {}, every {} checkpointed, {} frozen, updates of rank {}, {} bytes an "
        "element, steps in backward {}, master weights {}, offload {}",
        shape.examples, shape.length, fmt::join(syncs, " "), levers.checkpointed.every,
        levers.frozen, levers.lora_rank, levers.element_bytes, optimizer_in_backward,
        master_weights, static_cast<int>(offload));
  }
};

models::Batch batch_of(const MicroBatchShape& shape) {
  models::Batch batch;
  batch.input_ids =
      at::arange(shape.tokens(), at::kLong).remainder(200).reshape({shape.examples, shape.length});
  batch.labels = at::zeros({shape.examples}, at::kLong);
  return batch;
}

std::int64_t batch_bytes(const MicroBatchShape& shape) {
  return (shape.tokens() + shape.examples) * models::kLongBytes;
}

std::int64_t other_bytes(const Footprint& footprint, const MicroBatchShape& shape) {
  std::int64_t bytes = batch_bytes(shape);
  for (const std::int64_t buffer : footprint.buffer_bytes) bytes += buffer;
  return bytes;
}

void run_step(sync::Wrapper& model, sync::Optimizer* optimizer, const models::Batch& batch,
              const std::vector<bool>& syncs) {
  for (const bool sync : syncs) {
    std::optional<sync::NoSyncGuard> guard;
    if (!sync) guard.emplace(model);
    sync::backward(model.forward(batch), static_cast<int>(syncs.size()), nullptr);
  }
  if (optimizer != nullptr) optimizer->step();
  for (const at::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
}

// What DDP compared and reduced first is gone when the last thread of gloo has let go of it, which
// a step of microseconds may not give it the time for. `other`: what is to stay, beside buckets.
void await_gloos_threads(const sync::Wrapper& model, std::int64_t other) {
  std::int64_t stays = other;
  for (const std::int64_t bytes : model.reduction_bytes()) stays += bytes;
  const auto held = [] {
    const auto bytes = measure::meter().allocated_by_category();
    return measure::bytes_of(bytes, MemoryCategory::Communication) +
           measure::bytes_of(bytes, MemoryCategory::Other);
  };
  constexpr int kPatience = 5000;
  for (int i = 0; i < kPatience && held() > stays; ++i) usleep(1000);
}

void store_in_bfloat16(models::Model& model) {
  for (at::Tensor& parameter : model.parameters()) {
    parameter.set_data(parameter.detach().to(at::kBFloat16));
  }
}

std::unique_ptr<sync::Optimizer> optimizer_of(sync::Wrapper& model, const Point& point) {
  if (model.module().compute() != models::Compute::Real) return nullptr;
  const std::vector<at::Tensor> parameters = model.parameters();
  if (point.master_weights) {
    return std::make_unique<sync::MasterWeightAdamW>(parameters, sync::AdamWOptions{});
  }
  const auto make = [](std::vector<at::Tensor> those) {
    return std::make_unique<sync::FusedAdamW>(std::move(those), sync::AdamWOptions{});
  };
  if (point.offload == Offload::None) return make(parameters);
  if (point.offload == Offload::Parameters) {
    return std::make_unique<sync::HostOptimizer>(parameters, make);
  }
  return std::make_unique<sync::OffloadedOptimizer>(parameters, sync::HostCopies(nullptr), make);
}

// What a steady step holds, by the meter, in an account of its own.
StepMemory measured(
    const Subject& subject, const Point& point,
    const std::function<std::unique_ptr<sync::Wrapper>(std::shared_ptr<models::Model>)>& wrap) {
  measure::MemoryMeter& meter = measure::meter();
  static int account = 0;
  meter.switch_account(++account);
  const auto batch = batch_of(point.shape);
  const auto module = subject.make(point.levers);
  if (point.levers.element_bytes == 2) store_in_bfloat16(*module);
  models::freeze_units(*module, static_cast<int>(point.levers.frozen));
  module->set_recomputation(sync::recomputation_of(*module, point.levers.checkpointed, nullptr));
  const auto model = wrap(module);
  const auto optimizer = optimizer_of(*model, point);
  if (point.optimizer_in_backward) {
    model->step_in_backward([&] {
      optimizer->step();
      optimizer->zero_grad();
    });
  }
  for (int step = 0; step < 2; ++step) run_step(*model, optimizer.get(), batch, {true});
  await_gloos_threads(*model, other_bytes(subject.footprint(point.shape, {}), point.shape));
  meter.reset_peak();
  run_step(*model, optimizer.get(), batch, point.syncs);
  StepMemory memory;
  memory.peak_bytes = meter.peak_bytes();
  memory.peak_by_category = meter.peak_by_category();
  memory.highest_by_category = meter.highest_by_category();
  memory.host_peak_bytes = meter.host().peak_bytes;
  memory.host_peak_by_category = meter.host().peak;
  return memory;
}

std::string table(const measure::CategoryBytes& bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text += fmt::format(" {} {}", measure::kMemoryCategoryNames[i], bytes[i]);
  }
  return text;
}

void expect_same(const StepMemory& seen, const StepMemory& predicted, const std::string& what) {
  EXPECT_EQ(seen.peak_bytes, predicted.peak_bytes) << what;
  EXPECT_EQ(table(seen.peak_by_category), table(predicted.peak_by_category)) << what;
  EXPECT_EQ(table(seen.highest_by_category), table(predicted.highest_by_category)) << what;
  EXPECT_EQ(seen.host_peak_bytes, predicted.host_peak_bytes) << what;
  EXPECT_EQ(table(seen.host_peak_by_category), table(predicted.host_peak_by_category)) << what;
}

// The policies of a step: no_sync, and reduction in every micro-batch.
std::vector<std::vector<bool>> policies() {
  return {{true}, {false, true}, {true, true}, {false, false, true}, {true, true, true}};
}

const std::vector<MicroBatchShape> kShapes{{2, 5}, {3, 33}};

FsdpOptions options_of(int bits) {
  FsdpOptions options;
  options.reshard_after_forward = (bits & 1) == 0;
  options.reshard_after_backward = (bits & 2) == 0;
  options.prefetch = (bits & 4) == 0;
  options.reduce_dtype = (bits & 8) == 0 ? at::kFloat : at::kBFloat16;
  options.accumulate_in_reduce_dtype = (bits & 16) == 0;
  options.param_dtype = (bits & 32) == 0 ? at::kFloat : at::kBFloat16;
  return options;
}

sync::FsdpMemory memory_of(const FsdpOptions& options, int ranks) {
  sync::FsdpMemory memory;
  memory.ranks = ranks;
  memory.param_bytes = static_cast<int>(c10::elementSize(options.param_dtype));
  memory.reduce_bytes = static_cast<int>(c10::elementSize(options.reduce_dtype));
  memory.gradient_bytes =
      options.accumulate_in_reduce_dtype ? memory.reduce_bytes : memory.param_bytes;
  memory.reshard_after_forward = options.reshard_after_forward;
  memory.reshard_after_backward = options.reshard_after_backward;
  memory.prefetch = options.prefetch;
  return memory;
}

// Whether these options are tried: half of all, in which all but any one of them occur in every
// combination. ctest's step_memory_slow_test tries the other half as well.
bool tries(int bits) {
  const bool all = std::getenv("GRADSYNC_EVERY_OPTION") != nullptr;
  return all || std::popcount(static_cast<unsigned>(bits)) % 2 == 0;
}

// One of the shapes and policies for each, in turn.
Point point_of(int number, const UnitLevers& levers = {}) {
  const auto at = static_cast<std::size_t>(number);
  return {kShapes[at / 4 % kShapes.size()], policies()[at % policies().size()], levers};
}

void expect_fsdp_as_predicted(const sync::FsdpGroups& groups, const Subject& subject, int bits,
                              const Point& point) {
  FsdpOptions options = options_of(bits);
  options.offload_parameters = point.offload == Offload::Parameters;
  UnitLevers levers = point.levers;
  levers.element_bytes = static_cast<std::int64_t>(c10::elementSize(options.param_dtype));
  const Footprint footprint = subject.footprint(point.shape, levers);
  const auto wrap = [&](std::shared_ptr<models::Model> model) {
    return std::make_unique<sync::FullyShardedDataParallel>(std::move(model), groups, options);
  };
  const int ranks = groups.shard->getSize();
  sync::FsdpMemory memory = memory_of(options, ranks);
  memory.optimizer_in_backward = point.optimizer_in_backward;
  memory.offload = point.offload;
  const int nodes = groups.replicate ? groups.replicate->getSize() : 1;
  expect_same(measured(subject, point, wrap),
              fsdp_step_memory(memory, footprint, point.syncs, other_bytes(footprint, point.shape)),
              fmt::format("{} of {}, shared by {} ranks on each of {} nodes, options {}",
                          subject.name, point.words(), ranks, nodes, bits));
}

// Activations are declared as the kernels of one torch make them (models/footprint.h).
class StepMemoryFormula : public ::testing::Test {
  void SetUp() override {
    if (!build_info().torch_version.starts_with("2.11")) {
      GTEST_SKIP() << "declared for torch 2.11, this is " << build_info().torch_version;
    }
  }
};

template <typename Run>
void on_one_to_three_ranks(const Run& run) {
  for (const int ranks : {1, 2, 3}) {
    run_ranks(ranks, [&run](RankHarness& rank) {
      measure::meter().install();
      run(rank);
    });
  }
}

// Every model x 32 options, dealt out over 1 to 4 ranks, 2 shapes and 5 policies: 128 points.
TEST_F(StepMemoryFormula, OfFsdpIsWhatTheMeterCounts) {
  for (const int ranks : {1, 2, 3, 4}) {
    run_ranks(ranks, [](RankHarness& rank) {
      measure::meter().install();
      int number = 0;
      for (const Subject& subject : subjects()) {
        for (int bits = 0; bits < 32; ++bits, ++number) {
          if (!tries(bits) || (bits + number / 32) % 4 + 1 != rank.world_size) continue;
          expect_fsdp_as_predicted({rank.group, nullptr}, subject, bits, point_of(number));
        }
      }
    });
  }
}

// Every model x 32 options, dealt out over 2 x 2, 3 x 1 and 1 x 2 ranks on nodes: 128 points.
TEST_F(StepMemoryFormula, OfHybridShardingIsWhatTheMeterCounts) {
  struct Layout {
    int nodes;
    int ranks_per_node;
  };
  const std::vector<Layout> layouts{{2, 2}, {3, 1}, {1, 2}};
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    run_ranks(layouts[i].nodes * layouts[i].ranks_per_node, [&](RankHarness& rank) {
      measure::meter().install();
      const sync::FsdpGroups groups = hybrid_groups(rank, layouts[i].ranks_per_node);
      std::size_t number = 0;
      for (const Subject& subject : subjects()) {
        for (int bits = 0; bits < 32; ++bits, ++number) {
          if (!tries(bits) || number % layouts.size() != i) continue;
          expect_fsdp_as_predicted(groups, subject, bits, point_of(static_cast<int>(number)));
        }
      }
    });
  }
}

void expect_ddp_as_predicted(RankHarness& rank, const Subject& subject, bool view,
                             const Point& point, bool broadcast_buffers = true) {
  Footprint footprint = subject.footprint(point.shape, point.levers);
  const std::int64_t other = other_bytes(footprint, point.shape);
  if (!broadcast_buffers) footprint.buffer_bytes.clear();
  sync::DdpOptions options;
  options.gradient_as_bucket_view = view;
  options.broadcast_buffers = broadcast_buffers;
  const auto wrap = [&](std::shared_ptr<models::Model> model) {
    return std::make_unique<sync::DistributedDataParallel>(std::move(model), rank.group, options);
  };
  expect_same(measured(subject, point, wrap),
              sync::ddp_step_memory({view, point.master_weights, point.offload}, footprint,
                                    point.syncs, other),
              fmt::format("{} of {} on {} ranks, view {}, buffers broadcast {}", subject.name,
                          point.words(), rank.world_size, view, broadcast_buffers));
}

// Every model x both kinds of gradients x 5 policies on 1 to 3 ranks: 120 points.
TEST_F(StepMemoryFormula, OfDdpIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    int number = rank.world_size;
    for (const Subject& subject : subjects()) {
      for (const bool view : {false, true}) {
        for (std::size_t i = 0; i < policies().size(); ++i) {
          expect_ddp_as_predicted(rank, subject, view, point_of(number++));
        }
      }
    }
  });
}

// Those with buffers, which then go into no message: 4 points.
TEST_F(StepMemoryFormula, OfDdpThatBroadcastsNoBuffersIsWhatTheMeterCounts) {
  run_ranks(2, [](RankHarness& rank) {
    measure::meter().install();
    for (const Subject& subject : subjects()) {
      if (subject.name != "bert" && subject.name != "paced") continue;
      for (const bool view : {false, true}) {
        expect_ddp_as_predicted(rank, subject, view, point_of(1), /*broadcast_buffers=*/false);
      }
    }
  });
}

// Those whose units may run again x each n-th unit x 16 options, dealt out over 1 to 3 ranks: 144
// points.
TEST_F(StepMemoryFormula, OfFsdpWithCheckpointedUnitsIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    int number = 0;
    for (const Subject& subject : subjects_with_units()) {
      for (const int every : {1, 2, 3}) {
        for (int bits = 0; bits < 16; ++bits, ++number) {
          if (!tries(bits) || (bits + every) % 3 + 1 != rank.world_size) continue;
          expect_fsdp_as_predicted({rank.group, nullptr}, subject, bits,
                                   point_of(number, {.checkpointed = {every}}));
        }
      }
    }
  });
}

// The same x both kinds of gradients x 5 policies: 90 points.
TEST_F(StepMemoryFormula, OfDdpWithCheckpointedUnitsIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    int number = 0;
    for (const Subject& subject : subjects_with_units()) {
      for (const int every : {1, 2, 3}) {
        for (const bool view : {false, true}) {
          for (std::size_t i = 0; i < policies().size(); ++i, ++number) {
            if ((number + every) % 3 + 1 != rank.world_size) continue;
            expect_ddp_as_predicted(rank, subject, view,
                                    point_of(number, {.checkpointed = {every}}));
          }
        }
      }
    }
  });
}

// How many units may be frozen, so that something is left to train: a BERT's and a Mixtral's heads,
// and of the perceptron its last layer.
int most_frozen(const Subject& subject) {
  return subject.name == "mlp" ? 2 : 3;
}

// What is frozen x what is checkpointed, for those whose units may be.
template <typename Run>
void for_each_freezing(const Run& run) {
  int number = 0;
  for (const Subject& subject : subjects_with_units()) {
    for (int frozen = 1; frozen <= most_frozen(subject); ++frozen) {
      for (const int every : {0, 2}) {
        run(subject, UnitLevers{{every}, static_cast<std::size_t>(frozen)}, number++);
      }
    }
  }
}

// Of each 6 options, dealt out over 1 to 3 ranks: 96 points.
TEST_F(StepMemoryFormula, OfFsdpWithFrozenUnitsIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    for_each_freezing([&](const Subject& subject, const UnitLevers& levers, int number) {
      for (int i = 0; i < 6; ++i) {
        if ((i + number) % 3 + 1 != rank.world_size) continue;
        expect_fsdp_as_predicted({rank.group, nullptr}, subject, (7 * number + 5 * i) % 32,
                                 point_of(number + i, levers));
      }
    });
  });
}

// Of each 4 of both kinds of gradients x 5 policies, likewise: 64 points.
TEST_F(StepMemoryFormula, OfDdpWithFrozenUnitsIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    for_each_freezing([&](const Subject& subject, const UnitLevers& levers, int number) {
      for (int i = 0; i < 4; ++i) {
        if ((i + number) % 3 + 1 != rank.world_size) continue;
        expect_ddp_as_predicted(rank, subject, i % 2 == 0, point_of(number + 2 * i, levers));
      }
    });
  });
}

// Ranks of updates x what is checkpointed, of a BERT.
template <typename Run>
void for_each_low_rank(const Run& run) {
  int number = 0;
  for (const std::int64_t rank : {1, 3, 24}) {
    for (const int every : {0, 1, 2}) {
      run(UnitLevers{.checkpointed = {every}, .lora_rank = rank}, number++);
    }
  }
}

// Of each 11 options, dealt out over 1 to 3 ranks: 99 points.
TEST_F(StepMemoryFormula, OfFsdpWithLowRankUpdatesIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    for_each_low_rank([&](const UnitLevers& levers, int number) {
      for (int i = 0; i < 11; ++i) {
        if ((i + number) % 3 + 1 != rank.world_size) continue;
        Point point = point_of(number + i, levers);
        point.optimizer_in_backward = point.syncs.size() == 1 && i % 2 == 0;
        expect_fsdp_as_predicted({rank.group, nullptr}, bert(), (3 * i + number) % 32, point);
      }
    });
  });
}

// Of each both kinds of gradients x 5 policies, likewise: 90 points.
TEST_F(StepMemoryFormula, OfDdpWithLowRankUpdatesIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    for_each_low_rank([&](const UnitLevers& levers, int number) {
      for (int i = 0; i < 10; ++i) {
        if ((i + number) % 3 + 1 != rank.world_size) continue;
        expect_ddp_as_predicted(rank, bert(), i % 2 == 0, point_of(number + i, levers));
      }
    });
  });
}

// Whether the optimizer steps in backward, which is only where a step reduces once.
TEST_F(StepMemoryFormula, OfFsdpWhoseOptimizerStepsInBackwardIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    int number = 0;
    for (const Subject& subject : subjects_with_units()) {
      for (int bits = 0; bits < 32; bits += 3, ++number) {
        if (number % 3 + 1 != rank.world_size) continue;
        Point point = point_of(number, {{number % 3}, static_cast<std::size_t>(number % 2)});
        point.syncs = std::vector<bool>(static_cast<std::size_t>(number / 2 % 3 + 1), false);
        point.syncs.back() = true;
        point.optimizer_in_backward = true;
        expect_fsdp_as_predicted({rank.group, nullptr}, subject, bits, point);
      }
    }
  });
}

// What is offloaded x every model with units x 32 options, dealt out over 1 to 3 ranks, with what
// is checkpointed, frozen and stepped in backward: 192 points.
TEST_F(StepMemoryFormula, OfFsdpThatOffloadsIsWhatTheMeterCountsOnDeviceAndHost) {
  on_one_to_three_ranks([](RankHarness& rank) {
    int number = 0;
    for (const Subject& subject : subjects_with_units()) {
      for (const Offload offload : {Offload::OptimizerState, Offload::Parameters}) {
        for (int bits = 0; bits < 32; ++bits, ++number) {
          if ((number + number / 3) % 3 + 1 != rank.world_size) continue;
          Point point = point_of(number, {{number % 3}, static_cast<std::size_t>(number / 3 % 2)});
          point.offload = offload;
          point.optimizer_in_backward = number % 10 == 0 && point.syncs.size() == 1;
          expect_fsdp_as_predicted({rank.group, nullptr}, subject, bits, point);
        }
      }
    }
  });
}

// Low-rank updates, whose units are frozen in part, and shards on two nodes: 32 points.
TEST_F(StepMemoryFormula, OfHybridShardingThatOffloadsIsWhatTheMeterCounts) {
  run_ranks(4, [](RankHarness& rank) {
    measure::meter().install();
    const sync::FsdpGroups groups = hybrid_groups(rank, 2);
    for (int bits = 0; bits < 32; ++bits) {
      Point point = point_of(bits, {.lora_rank = bits % 2 == 0 ? 0 : 3});
      point.offload = bits % 3 == 0 ? Offload::OptimizerState : Offload::Parameters;
      expect_fsdp_as_predicted(groups, bert(), bits, point);
    }
  });
}

// Every model with units x both kinds of gradients x 5 policies x frozen or not, on 1 to 3 ranks:
// 60 points.
TEST_F(StepMemoryFormula, OfDdpWhoseOptimizerIsOffloadedIsWhatTheMeterCountsOnDeviceAndHost) {
  on_one_to_three_ranks([](RankHarness& rank) {
    int number = 0;
    for (const Subject& subject : subjects_with_units()) {
      for (int i = 0; i < 20; ++i, ++number) {
        if (number % 3 + 1 != rank.world_size) continue;
        Point point = point_of(number, {{0}, static_cast<std::size_t>(i / 10)});
        point.offload = Offload::OptimizerState;
        expect_ddp_as_predicted(rank, subject, i % 2 == 0, point);
      }
    }
  });
}

// A BERT whose attention is torch's own, by what is checkpointed, frozen or updated: 72 points
// under FSDP and DDP.
TEST_F(StepMemoryFormula, OfScaledDotProductAttentionIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    std::vector<UnitLevers> some;
    for (const int every : {0, 1, 2}) {
      some.push_back({.checkpointed = {every}});
      some.push_back({.checkpointed = {every}, .frozen = 1});
      some.push_back({.checkpointed = {every}, .lora_rank = 3});
    }
    int number = 0;
    for (const UnitLevers& levers : some) {
      for (int i = 0; i < 4; ++i, ++number) {
        if (number % 3 + 1 != rank.world_size) continue;
        expect_ddp_as_predicted(rank, bert_with_sdpa(), i % 2 == 0, point_of(number, levers));
        expect_fsdp_as_predicted({rank.group, nullptr}, bert_with_sdpa(), number % 32,
                                 point_of(number + 1, levers));
      }
    }
  });
}

// Those that declare what they hold in bfloat16, with what may be done to their units.
template <typename Run>
void for_each_in_bfloat16(const Run& run) {
  int number = 0;
  for (const Subject& subject : subjects_with_units()) {
    if (subject.name == "mixtral") continue;
    for (const int every : {0, 1, 2}) {
      for (int frozen = 0; frozen <= most_frozen(subject); ++frozen) {
        run(subject, UnitLevers{{every}, static_cast<std::size_t>(frozen)}, number++);
      }
    }
  }
  for_each_low_rank([&](const UnitLevers& levers, int) { run(bert(), levers, number++); });
}

// Of each 10 options, dealt out over 1 to 3 ranks: 300 points.
TEST_F(StepMemoryFormula, OfFsdpThatComputesInBfloat16IsWhatTheMeterCounts) {
  constexpr int kComputesInBfloat16 = 32;
  for (const int ranks : {1, 2, 3}) {
    run_ranks(ranks, [](RankHarness& rank) {
      measure::meter().install({.leave_out_libraries = true});
      for_each_in_bfloat16([&](const Subject& subject, const UnitLevers& levers, int number) {
        for (int i = 0; i < 10; ++i) {
          if ((i + number) % 3 + 1 != rank.world_size) continue;
          Point point = point_of(number + i, levers);
          point.optimizer_in_backward = point.syncs.size() == 1 && i % 2 == 0;
          expect_fsdp_as_predicted({rank.group, nullptr}, subject,
                                   kComputesInBfloat16 + (7 * number + 3 * i) % 32, point);
        }
      });
    });
  }
}

// Of each 8 of both kinds of gradients x both optimizers x 5 policies, likewise: 240 points.
TEST_F(StepMemoryFormula, OfDdpInBfloat16IsWhatTheMeterCounts) {
  for (const int ranks : {1, 2, 3}) {
    run_ranks(ranks, [](RankHarness& rank) {
      measure::meter().install({.leave_out_libraries = true});
      for_each_in_bfloat16([&](const Subject& subject, UnitLevers levers, int number) {
        levers.element_bytes = 2;
        for (int i = 0; i < 8; ++i) {
          if ((i + number) % 3 + 1 != rank.world_size) continue;
          Point point = point_of(number + i, levers);
          point.master_weights = i / 2 % 2 == 0;
          expect_ddp_as_predicted(rank, subject, i % 2 == 0, point);
        }
      });
    });
  }
}

// Every combination of what of a model is frozen and what is checkpointed.
std::vector<UnitLevers> combinations(const Subject& subject) {
  std::vector<UnitLevers> all;
  for (const int every : {0, 1, 2}) {
    for (int frozen = 0; frozen <= most_frozen(subject); ++frozen) {
      all.push_back({{every}, static_cast<std::size_t>(frozen)});
    }
    if (subject.name == "bert") all.push_back({.checkpointed = {every}, .lora_rank = 4});
  }
  return all;
}

// Every combination of levers of one model under one wrapper, with one and with three micro-batches
// a step, which only the last reduces. Returns how many there are.
template <typename Run>
int for_each_combination(const Subject& subject, const Run& run) {
  int count = 0;
  for (const UnitLevers& levers : combinations(subject)) {
    for (const std::size_t micro_batches : {1, 3}) {
      Point point{kShapes[1], std::vector<bool>(micro_batches, false), levers};
      point.syncs.back() = true;
      count += run(point);
    }
  }
  return count;
}

// On two ranks: frozen units or low-rank updates x checkpointed units x 1 and 3 micro-batches x,
// under DDP, both kinds of gradients, or, under FSDP, what is resharded and whether the optimizer
// steps in backward.
TEST_F(StepMemoryFormula, OfEveryCombinationOfLeversIsWhatTheMeterCounts) {
  run_ranks(2, [](RankHarness& rank) {
    measure::meter().install();
    int cells = 0;
    for (const Subject& subject : subjects_with_units()) {
      cells += for_each_combination(subject, [&](Point point) {
        for (const bool view : {false, true}) expect_ddp_as_predicted(rank, subject, view, point);
        for (const int bits : {0, 1}) {
          for (const bool in_backward : {false, true}) {
            point.optimizer_in_backward = in_backward;
            expect_fsdp_as_predicted({rank.group, nullptr}, subject, bits, point);
          }
        }
        return 2 + 2 * 2;
      });
    }
    EXPECT_EQ(cells, (3 + 5 + 4) * 3 * 2 * 6);
  });
}

}  // namespace
}  // namespace gradsync::test

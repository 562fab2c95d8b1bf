#include "harness/run/gradient_account.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "harness/measure/memory.h"
#include "harness/paper/words.h"
#include "harness/run/tensor_sketch.h"

namespace gradsync::run {
namespace {

using account::AccountRecords;
using torch::autograd::variable_list;

// The largest number of columns that account/weight_groups.cpp separates.
constexpr int kMostContributions = 512;
// How many sketches a rank sends at most, unless more are needed.
constexpr std::size_t kEnoughSketches = 320;

// Keeps the memory of sketches out of the trial's peaks and out of its budget.
class AsideScope {
 public:
  AsideScope() : account_(measure::meter().account()) { measure::meter().switch_account(kAside); }
  ~AsideScope() { measure::meter().switch_account(account_); }
  AsideScope(const AsideScope&) = delete;
  AsideScope& operator=(const AsideScope&) = delete;

 private:
  static constexpr int kAside = -1;
  int account_;
};

void lift_budget(comm::Gpu* gpu) {
  measure::meter().set_budget_bytes(std::nullopt);
  if (gpu != nullptr) gpu->set_memory_budget(std::numeric_limits<std::int64_t>::max());
}

// One gradient that the optimizer reads, in sketches.
struct Accounted {
  sync::GradientSource source;
  std::size_t index = 0;                    // among all that it reads
  std::map<int, at::Tensor> contributions;  // by micro-batch
  at::Tensor gradient;                      // undefined: not read
};

// Sees each gradient of a parameter before autograd adds it to what is there.
class ContributionHook final : public torch::autograd::FunctionPreHook {
 public:
  ContributionHook(Accounted& accounted, std::int64_t offset)
      : accounted_(accounted), offset_(offset) {}

  variable_list operator()(const variable_list& gradients) override {
    if (!gradients[0].defined()) return gradients;
    const AsideScope aside;
    const at::Tensor sketch = tensor_sketch(gradients[0], offset_);
    at::Tensor& sum = accounted_.contributions[measure::meter().place()->micro_batch];
    sum = sum.defined() ? sum + sketch : sketch;
    return gradients;
  }

 private:
  Accounted& accounted_;
  std::int64_t offset_;
};

// Records contributions to `all` while it lives. Parameters must have no other hooks of their own:
// they would be removed with these.
class ContributionHooks {
 public:
  explicit ContributionHooks(std::vector<Accounted>& all) : all_(all) {
    for (Accounted& each : all_) {
      for (const auto& part : each.source.parts) {
        torch::autograd::impl::add_hook(part.parameter,
                                        std::make_unique<ContributionHook>(each, part.offset));
      }
    }
  }
  ~ContributionHooks() {
    for (const Accounted& each : all_) {
      for (const auto& part : each.source.parts) torch::autograd::impl::clear_hooks(part.parameter);
    }
  }
  ContributionHooks(const ContributionHooks&) = delete;
  ContributionHooks& operator=(const ContributionHooks&) = delete;

 private:
  std::vector<Accounted>& all_;
};

// Reads the gradients instead of stepping.
class ReadingOptimizer final : public sync::Optimizer {
 public:
  ReadingOptimizer(std::vector<Accounted>& all, sync::Optimizer& optimizer)
      : all_(all), optimizer_(optimizer) {}

  void step() override {
    const AsideScope aside;
    for (Accounted& each : all_) {
      const at::Tensor& gradient = each.source.read.grad();
      if (gradient.defined()) each.gradient = tensor_sketch(gradient, each.source.offset);
    }
    ++reads_;
  }
  void zero_grad() override { optimizer_.zero_grad(); }
  double lr() const override { return optimizer_.lr(); }
  void set_lr(double) override {}
  int reads() const { return reads_; }

 private:
  std::vector<Accounted>& all_;
  sync::Optimizer& optimizer_;
  int reads_ = 0;
};

// As many as tell all contributions apart with a margin, and no more than may travel.
std::size_t most_sampled(int contributions, int micro_batches) {
  const auto needed = static_cast<std::size_t>(contributions) / 16;  // of 64 equations each: 4 x
  const auto cheap = kEnoughSketches / (static_cast<std::size_t>(micro_batches) + 2);
  return std::clamp(std::max(needed, cheap), std::size_t{1}, kMostAccounted);
}

std::vector<Accounted> sampled(const sync::Wrapper& model, std::size_t most) {
  const std::vector<sync::GradientSource> sources = model.gradient_sources();
  const std::size_t count = std::min(sources.size(), most);
  std::vector<Accounted> all;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t index = i * sources.size() / count;
    all.push_back({sources[index], index, {}, {}});
  }
  return all;
}

// Returns the shortest type that the gradient was rounded to on its way.
std::string dtype_of(const plan::Cell& cell, const at::Tensor& read) {
  if (cell.compression != "none") return cell.compression == "fp16" ? "float16" : "bfloat16";
  for (const std::string& dtype : {cell.param_dtype, cell.reduce_dtype}) {
    if (cell.wrapper == "fsdp" && dtype != "float32") return dtype;
  }
  return read.scalar_type() == at::kBFloat16 ? "bfloat16" : "float32";
}

// Values of parameters are not among them: who has which is known here, and 0 is the same
// everywhere.
account::ParameterRecord record_of(const Accounted& accounted, const plan::Cell& cell,
                                   const std::string& name, int optimizer) {
  const AsideScope aside;
  account::ParameterRecord record;
  record.optimizer = optimizer;
  record.index = static_cast<int>(accounted.index);
  record.name = name;
  record.dtype = dtype_of(cell, accounted.source.read);
  record.elements = accounted.source.elements;
  record.offset = accounted.source.offset;
  record.length = accounted.source.read.numel();
  if (accounted.gradient.defined()) record.gradient = sketch_numbers(accounted.gradient);
  for (const auto& [micro_batch, sketch] : accounted.contributions) {
    record.contributions.push_back({micro_batch, false, sketch_numbers(sketch)});
  }
  return record;
}

bool is_finite(const account::ParameterRecord& record) {
  return account::is_finite(record.gradient) &&
         std::ranges::all_of(record.contributions, [](const account::Contribution& each) {
           return account::is_finite(each.sketch);
         });
}

AccountRecords records_of(const RankContext& context, const Workload& workload,
                          const std::vector<Accounted>& all, const plan::Cell& cell) {
  AccountRecords records;
  records.pid = getpid();
  records.rank = context.rank;
  records.world_size = context.world_size;
  // Stages share no parameter: each is stepped by an optimizer of its own.
  const int optimizer = cell.wrapper == "pipeline" ? context.rank : 0;
  const auto names = workload.wrapper().parameter_names();
  for (const Accounted& each : all) {
    account::ParameterRecord record = record_of(each, cell, names[each.index], optimizer);
    if (!is_finite(record)) {
      records.faults.push_back("the gradient of " + record.name + " is not finite");
      continue;
    }
    records.parameters.push_back(std::move(record));
  }
  account::AccountedStep step;
  step.optimizer = optimizer;
  step.micro_batches = cell.accumulation_steps;
  records.steps.push_back(std::move(step));
  return records;
}

}  // namespace

std::string why_no_account(const RankContext& context, const plan::Trial& trial, bool passes_over) {
  const int contributions = context.world_size * trial.cell.accumulation_steps;
  if (context.spec.backend == "fake") return "one rank stands for all, and nothing is reduced";
  if (context.spec.paper) return paper::kNothingComputed;
  if (context.spec.fold_from_bytes > 0) return "folded: gradients hold garbage";
  if (context.spec.resident) return "arms take turns, and nothing is done between them";
  if (passes_over) return "no time is wanted: micro-batches that repeat the one before do not run";
  if (trial.cell.optimizer_in_backward) return "the optimizer steps in backward, unit by unit";
  if (contributions > kMostContributions) {
    return fmt::format("{} ranks and micro-batches are more than it can tell apart", contributions);
  }
  if (trial.round > 0) return "the cell's first round of the launch has it";
  return "";
}

AccountRecords account_step(const RankContext& context, Workload& workload,
                            sync::Strategy& strategy, const plan::Trial& trial) {
  const int micro_batches = trial.cell.accumulation_steps;
  lift_budget(context.gpu);
  std::vector<Accounted> all =
      sampled(workload.wrapper(), most_sampled(context.world_size * micro_batches, micro_batches));
  ReadingOptimizer optimizer(all, workload.optimizer());
  sync::LinearWarmup scheduler(optimizer, 1, 2);  // sets nothing: the optimizer takes no rate
  const sync::Training usual = workload.training(context);
  sync::Training training{usual.model,    optimizer,    scheduler,       usual.data,
                          usual.recorder, usual.ledger, usual.world_size};
  training.accumulation_steps = micro_batches;
  training.step = -1;
  context.recorder.begin_block();
  {
    const ContributionHooks hooks(all);
    strategy.step(training, micro_batches);
  }
  context.recorder.end_step();
  context.ledger.set_place(-1, -1);
  context.recorder.end_block();
  AccountRecords records = records_of(context, workload, all, trial.cell);
  // Or what sketches took would be in what the allocator has reserved in later trials.
  all.clear();
  if (context.gpu != nullptr) context.gpu->release_unused();
  if (optimizer.reads() != 1) {
    records.faults.push_back(
        fmt::format("the optimizer steps {} times in a step", optimizer.reads()));
  }
  return records;
}

}  // namespace gradsync::run

#include "harness/run/rank_main.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "harness/base/errors.h"
#include "harness/comm/gloo_loop.h"
#include "harness/comm/process_groups.h"
#include "harness/comm/store.h"
#include "harness/measure/folding.h"
#include "harness/measure/memory.h"
#include "harness/memory/memory_prediction.h"
#include "harness/paper/words.h"
#include "harness/run/block.h"
#include "harness/run/cpu_waits.h"
#include "harness/run/extra_work.h"
#include "harness/run/rank_gpu.h"

namespace gradsync::run {
namespace {

// Refuses what a trial's tensors would hold beyond its budget, while it lives; 0: none. On a GPU
// the budget is for what the allocator reserves.
class BudgetScope {
 public:
  BudgetScope(std::int64_t bytes, comm::Gpu* gpu) : gpu_(bytes > 0 ? gpu : nullptr) {
    if (bytes == 0) return;
    if (gpu != nullptr) {
      gpu->set_memory_budget(bytes);
      return;
    }
    const std::int64_t held = measure::meter().allocated_bytes();
    if (held > bytes) {
      C10_THROW_ERROR(OutOfMemoryError,
                      fmt::format("parameters and optimizer alone hold {} bytes, over a budget of "
                                  "{} bytes",
                                  held, bytes));
    }
    measure::meter().set_budget_bytes(bytes);
  }
  ~BudgetScope() {
    measure::meter().set_budget_bytes(std::nullopt);
    if (gpu_ != nullptr) gpu_->set_memory_budget(std::numeric_limits<std::int64_t>::max());
  }
  BudgetScope(const BudgetScope&) = delete;
  BudgetScope& operator=(const BudgetScope&) = delete;

 private:
  comm::Gpu* gpu_;  // null: it has no budget of this trial's
};

std::unique_ptr<RankGpu> open_gpu(const launch::LaunchSpec& spec, const launch::RankPlace& place) {
  if (spec.device == "cpu") return nullptr;
  return std::make_unique<RankGpu>(spec, place);
}

bool is_paced(const launch::LaunchSpec& spec) {
  return std::all_of(spec.trials.begin(), spec.trials.end(), [](const plan::Trial& trial) {
    return models::find_model(trial.cell.model).compute == models::Compute::Paced;
  });
}

// The model of a GPU's allocator sees every tensor come and go, inside of timed steps too: it runs
// where memory is the question.
bool is_about_memory(const launch::LaunchSpec& spec) {
  return std::any_of(spec.trials.begin(), spec.trials.end(), [](const plan::Trial& trial) {
    return trial.cell.wrapper == "fsdp" || trial.cell.memory_budget_bytes > 0;
  });
}

// Else what its peak is would depend on the processor.
bool computes_in_bfloat16(const plan::Trial& trial) {
  return memory::computed_dtype(trial.cell) != "float32" || trial.cell.autocast != "none";
}

class Rank {
 public:
  Rank(launch::ControlChannel& control, const launch::LaunchSpec& spec)
      : control_(control),
        spec_(spec),
        place_(launch::rank_place_from_environment()),
        gpu_(open_gpu(spec, place_)),
        ledger_(steady_clock(), &control.progress(), device()),
        recorder_(steady_clock(), &control.progress(), device()) {}

  void join() {
    at::set_num_threads(spec_.threads_per_rank);
    at::manual_seed(spec_.seed + static_cast<std::uint64_t>(place_.rank));  // dropout's masks
    if (is_paced(spec_)) prefer_prompt_wakeups();  // before gloo starts its threads
    comm::let_gloo_loop_yield(spec_.gloo_loop_yields);
    comm::GroupOptions options;
    options.rank = place_.rank;
    options.world_size = place_.world_size;
    options.backend = spec_.backend;
    options.device = at::Device(spec_.device);
    options.address = place_.address;
    options.timeout_s = spec_.timeout_s;
    options.gpu = device();
    const auto store = meeting_place();
    if (gpu_) gpu_->meet(*store);
    group_ = comm::make_process_group(store, options, ledger_);
    agreement_ =
        std::make_unique<comm::Agreement>(store, alone() ? 1 : place_.world_size, spec_.timeout_s);
    context_ = std::make_unique<RankContext>(
        RankContext{spec_, place_.rank, place_.node, place_.world_size, group_, *agreement_,
                    hybrid_groups(store, options), ledger_, recorder_, steady_clock(),
                    gpu_ ? device()->pace() : models::host_pace(steady_clock()), device()});
  }

  // Makes and settles every cell that the specification names, and says so. Collective.
  void prepare() {
    for (const plan::Trial& trial : spec_.trials) {
      control_.progress().changed_ns.store(steady_clock().now_ns());
      Workload& workload = workload_for(trial.cell);
      if (spec_.extra_work == 0) continue;
      extra_.emplace_back(trial.cell,
                          calibrated_extra_work(spec_.extra_work, *context_, workload, trial.cell));
    }
    control_.send(to_json(coordinate::RankReady{}));
  }

  // Collective. The record goes to the launcher as soon as the block ends.
  void run(const plan::Trial& trial) {
    launch::RankProgress& progress = control_.progress();
    progress.step.store(0);
    progress.trial.store(trial.order);
    progress.changed_ns.store(steady_clock().now_ns());
    Workload& workload = workload_for(trial.cell);
    const BudgetScope budget(trial.cell.memory_budget_bytes, device());
    ExtraWork* extra = extra_for(trial.cell);
    BlockResult result = run_block(*context_, workload, trial, extra);
    progress.activity.store(launch::Activity::Idle);
    results::ModelInfo info = workload.info();
    if (gpu_) {
      gpu_->add_to(info);
      if (result.invalid.empty()) result.invalid = gpu_->detour();
    }
    if (spec_.paper) info.refuse_times(paper::kNothingComputed);
    if (!trial.timed) info.refuse_times("the plan wants none");
    if (alone()) add_what_stands_for_all(info);
    if (extra != nullptr) {
      info.extra_work = {spec_.extra_work, extra->operations(), extra->done()};
    }
    control_.send(to_json(coordinate::TrialDone{
        trial.order, std::move(result.rank), std::move(result.ledger), std::move(info),
        std::move(result.invalid), std::move(result.account), std::move(result.account_why_not)}));
  }

  // Collective on GPUs, whose peers may still read from this one's memory.
  void meet_at_end() {
    if (gpu_) comm::barrier(*group_);
  }
  // Teardown of NCCL and of torch's CUDA waits for peers and for the driver, to no use.
  bool leaves_at_once() const { return gpu_ != nullptr; }

 private:
  // Whether the other ranks of this one's world do not exist.
  bool alone() const { return spec_.backend == "fake"; }

  c10::intrusive_ptr<c10d::Store> meeting_place() {
    if (alone()) return c10::make_intrusive<c10d::HashStore>();
    return comm::make_store(place_, control_, spec_.timeout_s);
  }

  void add_what_stands_for_all(results::ModelInfo& info) const {
    info.refuse_times(fmt::format("one rank stands for {} and sends nothing", place_.world_size));
    if (spec_.fold_from_bytes == 0) return;
    info.fold_from_bytes = spec_.fold_from_bytes;
    info.physical_bytes.emplace(measure::physical_bytes());
  }

  comm::Gpu* device() { return gpu_ ? &gpu_->gpu() : nullptr; }

  bool has_trial(bool (*of_kind)(const plan::Cell&)) const {
    return std::any_of(spec_.trials.begin(), spec_.trials.end(),
                       [&](const plan::Trial& trial) { return of_kind(trial.cell); });
  }

  // One group per node, whose ranks hold one copy of the parameters between them, and one across
  // the nodes for each place in a node. Collective.
  sync::FsdpGroups hybrid_groups(const c10::intrusive_ptr<c10d::Store>& store,
                                 comm::GroupOptions options) {
    if (!has_trial([](const plan::Cell& cell) { return cell.hybrid_shard; })) return {};
    sync::FsdpGroups groups;
    options.name = fmt::format("node{}", place_.node);
    options.rank = place_.local_rank;
    options.world_size = spec_.topology.ranks_per_node;
    groups.shard = comm::make_process_group(store, options, ledger_);
    options.name = fmt::format("place{}", place_.local_rank);
    options.rank = place_.node;
    options.world_size = spec_.topology.nodes;
    groups.replicate = comm::make_process_group(store, options, ledger_);
    return groups;
  }

  // Null: the cell's steps do nothing in addition.
  ExtraWork* extra_for(const plan::Cell& cell) {
    const auto found = std::find_if(extra_.begin(), extra_.end(),
                                    [&](const auto& entry) { return entry.first == cell; });
    return found == extra_.end() ? nullptr : &found->second;
  }

  struct Resident {
    std::unique_ptr<Workload> workload;
    int account;  // of its memory
  };

  // Frees the other workloads, except for arms that take turns. The allocator of a GPU keeps one
  // account for all, so their memory would be in the peak of this one and against its budget.
  // Collective.
  void clear_gpu() {
    if (!spec_.resident) workloads_.clear();
    release_gpu();
  }

  // Collective.
  void release_gpu() {
    device()->finish_collectives();
    comm::barrier(*group_);  // torch lets go of what earlier collectives held
    device()->release_unused();
  }

  // As published, every script starts cold: a workload of its own. Otherwise it stays resident,
  // where there is room. Collective.
  Workload& workload_for(const plan::Cell& cell) {
    if (spec_.as_published) workloads_.clear();
    for (const Resident& resident : workloads_) {
      if (!resident.workload->serves(cell)) continue;
      measure::meter().switch_account(resident.account);
      return *resident.workload;
    }
    if (gpu_) clear_gpu();
    if (spec_.one_workload_at_a_time) workloads_.clear();
    measure::meter().switch_account(++last_account_);
    workloads_.push_back({std::make_unique<Workload>(*context_, cell), last_account_});
    Workload& workload = *workloads_.back().workload;
    if (!spec_.as_published) workload.reach_steady_state(*context_);
    if (gpu_) release_gpu();  // what settling needed is no step's
    return workload;
  }

  launch::ControlChannel& control_;
  const launch::LaunchSpec& spec_;
  launch::RankPlace place_;
  std::unique_ptr<RankGpu> gpu_;  // null: this rank computes on the CPU
  comm::Ledger ledger_;
  measure::StepRecorder recorder_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::unique_ptr<comm::Agreement> agreement_;
  std::unique_ptr<RankContext> context_;
  std::vector<Resident> workloads_;
  std::vector<std::pair<plan::Cell, ExtraWork>> extra_;
  int last_account_ = 0;
};

// Runs the trials that the launcher names, one by one, until it ends this process. `order`: of the
// running one, for the word of a failure; -1 before the first.
[[noreturn]] void serve(launch::ControlChannel& control, Rank& rank, int& order) {
  constexpr double kNoDeadlineS = 1e9;
  rank.prepare();
  for (;;) {
    const plan::Trial trial = coordinate::run_trial(control.receive(kNoDeadlineS)).trial;
    order = trial.order;
    rank.run(trial);
  }
}

}  // namespace

int rank_main() {
  launch::ControlChannel control;
  // The launcher sends the specification before anything else.
  constexpr double kFirstMessageS = 60;
  const launch::LaunchSpec spec = coordinate::begin_launch(control.receive(kFirstMessageS)).launch;
  // Before any tensor exists: what exists is not counted.
  if (spec.device == "cpu") {
    measure::meter().install(
        {.fold_from_bytes = spec.fold_from_bytes,
         .leave_out_libraries = std::ranges::any_of(spec.trials, computes_in_bfloat16),
         .estimate_reserved = is_about_memory(spec)});
  }
  int order = spec.resident || spec.trials.empty() ? -1 : spec.trials.front().order;
  std::unique_ptr<Rank> rank;  // outlives the catch, whose word must not wait for its teardown
  try {
    rank = std::make_unique<Rank>(control, spec);
    rank->join();
    if (spec.resident) serve(control, *rank, order);
    for (const plan::Trial& trial : spec.trials) {
      order = trial.order;
      rank->run(trial);
    }
    rank->meet_at_end();
    control.send(to_json(coordinate::RankDone{}));
    if (rank->leaves_at_once()) _exit(0);
    return 0;
  } catch (const std::exception& error) {
    coordinate::RankFailure failure = rank_failure(error, control.progress());
    failure.order = order;
    control.send(to_json(failure));
  }
  // Not a normal exit: tearing down a process group whose peers are gone can block for minutes.
  _exit(1);
}

}  // namespace gradsync::run

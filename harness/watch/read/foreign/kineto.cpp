#include "harness/watch/read/foreign/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/whole_file.h"
#include "harness/watch/inject/preload/event_kind.h"
#include "harness/watch/inject/preload/fnv_1a.h"
#include "harness/watch/inject/preload/wrappers.h"
#include "harness/watch/read/clock_between.h"
#include "harness/watch/read/foreign/device_events.h"
#include "harness/watch/read/foreign/gradient_runs.h"
#include "harness/watch/read/foreign/nccl_kernels.h"
#include "harness/watch/read/foreign/traced_collectives.h"
#include "harness/watch/read/group_roles.h"

namespace gradsync::watch {
namespace {

constexpr std::string_view kZeroGrad = "Optimizer.zero_grad#";
constexpr std::string_view kModule = "nn.Module: ";
constexpr std::string_view kSearch = "torch.distributed.ddp.reducer::search_unused_parameters";
// A gradient scaler that skips an optimizer leaves no range of it.
constexpr const char* kClearing = "zero_grad, behind a step that a scaler may have skipped,";

// "SGD" of "Optimizer.step#SGD.step".
std::string optimizer_of(std::string_view range, std::string_view prefix) {
  const std::string_view name = range.substr(prefix.size());
  return std::string(name.substr(0, name.rfind('.')));
}

class Reader {
 public:
  explicit Reader(const TraceFile& trace) : trace_(trace), collectives_(trace) {}

  RankEvents read() {
    rank_.rank = trace_.rank;
    rank_.world_size = trace_.world_size;
    rank_.pid = trace_.pid;
    rank_.groups = trace_.groups;
    rank_.is_traced = true;
    rank_.lacks_ranges = trace_.has_unknown_ranges;
    rank_.graphs_may_communicate = graphs_may_communicate(trace_);
    if (trace_.is_on_paper) rank_.gpus_of_paper = "by its trace";
    for (const TracedRange& range : trace_.ranges) see(range);
    see_gpu();
    rank_.world_size = std::max(rank_.world_size, collectives_.largest_group());
    add_backwards(trace_, rank_);
    add_wraps();
    for (Event& event : collectives_.finish(rank_.world_size)) {
      rank_.events.push_back(std::move(event));
    }
    sort_by_time(rank_.events);
    name_replicas();
    assign_roles(rank_);
    drop_cut_beginning();
    say_what_is_lacking();
    return std::move(rank_);
  }

 private:
  void see(const TracedRange& range) {
    if (range.kind == TracedKind::PythonFunction) {
      if (range.name.starts_with(kModule)) see_module(range);
      return;
    }
    if (collectives_.see(range)) return;
    if (range.name == kSearch) {
      searches_.push_back(&range);
    } else if (is_forward(range)) {
      see_forward(range);
    } else if (range.kind == TracedKind::Annotation && range.name.starts_with(kOptimizer)) {
      rank_.events.push_back(
          traced_event(range, EventKind::OptimizerStep, optimizer_of(range.name, kOptimizer)));
    } else if (range.kind == TracedKind::Annotation && range.name.starts_with(kZeroGrad)) {
      rank_.events.push_back(traced_event(range, EventKind::ZeroGrad, kClearing));
      rank_.events.back().detail = kUnclear;
    }
  }

  void see_gpu() {
    const Known<TracedGpu> gpu = traced_gpu(trace_);
    if (!gpu) {
      if (!gpu.why_not().empty()) lacks(gpu.why_not());
      return;
    }
    rank_.gpu = gpu->work;
    collectives_.take_kernels(gpu->kernels);
  }

  void see_forward(const TracedRange& range) {
    if (forward_ != nullptr && forward_->contains(range)) return;  // of a unit inside
    forward_ = &range;
    Event event =
        traced_event(range, EventKind::Forward, std::string(wrapper_of_range(range.name)));
    if (const TracedRange* module = module_around(range)) {
      event.object = nonzero_fnv_1a(module->name);
    }
    rank_.events.push_back(std::move(event));
  }

  void see_module(const TracedRange& range) {
    auto& open = modules_[range.thread];
    while (!open.empty() && !open.back()->contains(range)) open.pop_back();
    open.push_back(&range);
  }

  // The innermost module that runs; null: modules are not in the file.
  const TracedRange* module_around(const TracedRange& range) const {
    const auto of_thread = modules_.find(range.thread);
    if (of_thread == modules_.end()) return nullptr;
    const auto& open = of_thread->second;
    const auto inner = std::find_if(open.rbegin(), open.rend(), [&](const TracedRange* module) {
      return module->contains(range);
    });
    return inner == open.rend() ? nullptr : *inner;
  }

  // Adds how models were wrapped, as far as a trace shows it: by what a model does in every step.
  void add_wraps() {
    std::set<std::int64_t> models;
    for (const Event& forward : rank_.events) {
      if (forward.kind != EventKind::Forward) continue;
      const bool searches = std::ranges::any_of(searches_, [&](const TracedRange* search) {
        return forward.start_ns <= search->start_ns && search->end_ns <= forward.end_ns;
      });
      if (searches) models.insert(forward.object);
    }
    models.erase(0);
    for (const std::int64_t model : models) {
      Event event;
      event.kind = EventKind::Wrap;
      event.name = kDdp;
      event.object = model;
      event.detail = "find_unused_parameters=true";
      rank_.events.push_back(std::move(event));
    }
  }

  // replicate() is made of fully_shard, and scatters nothing.
  void name_replicas() {
    if (collectives_.runs("reduce_scatter") || !collectives_.runs("all_reduce")) return;
    for (Event& event : rank_.events) {
      if (event.kind == EventKind::Forward && event.name == kFullyShard) event.name = kReplicate;
    }
  }

  // A trace may begin in the middle of a step.
  void drop_cut_beginning() {
    std::vector<std::int64_t> ends_ns;
    for (const Event& event : rank_.events) {
      if (event.kind == EventKind::OptimizerStep) ends_ns.push_back(event.end_ns);
    }
    if (ends_ns.size() < 3) {
      if (!ends_ns.empty()) lacks("whether its first step has begun in it");
      return;
    }
    std::erase_if(rank_.events, [&](const Event& event) {
      return event.kind != EventKind::Wrap && event.kind != EventKind::CommHook &&
             event.start_ns < ends_ns.front();
    });
  }

  void lacks(const std::string& what) { rank_.faults.push_back("not in this file: " + what); }

  void say_what_is_lacking() {
    lacks("the lines to change, what else a step wastes, and what tensors held");
    if (collectives_.has_unknown_size()) lacks("the bytes of some collectives");
    if (!trace_.has_shapes) lacks("the sizes of operators' inputs: record_shapes=True writes them");
    if (collectives_.has_unknown_group()) lacks("in which process group collectives ran");
    const bool has_unknown_model = std::ranges::any_of(rank_.events, [](const Event& event) {
      return event.kind == EventKind::Forward && event.object == 0;
    });
    if (has_unknown_model) lacks("which model ran: with_stack=True writes it");
  }

  const TraceFile& trace_;
  RankEvents rank_;
  TracedCollectives collectives_;
  std::map<std::int64_t, std::vector<const TracedRange*>> modules_;  // that run, by thread
  std::vector<const TracedRange*> searches_;
  const TracedRange* forward_ = nullptr;
};

struct ReadFile {
  std::string path;
  RankEvents rank;
  std::optional<std::int64_t> first_step;  // as TraceFile has it
};

ReadFile read_file(const std::string& path) {
  const std::string bytes = whole_file(path);
  if (is_trace(bytes)) {
    const TraceFile trace = parse_trace(bytes, path);
    return {path, events_of(trace), trace.first_step};
  }
  throw ConfigError(fmt::format("{}: {}, expected a trace that torch.profiler wrote", path,
                                bytes.empty() ? "is empty" : "got another kind of file"));
}

// Checks several files together: each must name its rank, and all must be of one job.
void check_together(const std::vector<ReadFile>& files) {
  std::map<int, std::string> by_rank;
  for (const ReadFile& file : files) {
    if (file.rank.rank < 0) {
      throw ConfigError(file.path, "rank", "nothing",
                        "the rank that wrote it, where several files are given");
    }
    const auto [known, is_new] = by_rank.emplace(file.rank.rank, file.path);
    if (!is_new) {
      throw ConfigError(
          fmt::format("{} and {}: got two files of rank {}, expected one of each rank",
                      known->second, file.path, file.rank.rank));
    }
    if (file.rank.world_size != files[0].rank.world_size) {
      throw ConfigError(file.path, "world_size", std::to_string(file.rank.world_size),
                        fmt::format("{}, as {} has", files[0].rank.world_size, files[0].path));
    }
  }
}

Known<ClockBetween> clock_of(const ReadFile& first, const ReadFile& other) {
  if (first.first_step != other.first_step) return Unknown{"they begin with other steps"};
  return clock_between({&first.rank}, {&other.rank});
}

// Nothing says which of them share a host, and so a clock.
void put_on_one_clock(std::vector<ReadFile>& files) {
  for (std::size_t i = 1; i < files.size(); ++i) {
    files[i].rank.host = static_cast<int>(i);
    put_on_clock(files[i].rank, clock_of(files[0], files[i]));
  }
}

}  // namespace

RankEvents events_of(const TraceFile& trace) {
  return Reader(trace).read();
}

std::vector<RankEvents> read_foreign_job(const std::vector<std::string>& paths) {
  std::vector<ReadFile> files;
  for (const std::string& path : paths) files.push_back(read_file(path));
  if (files.size() > 1) check_together(files);
  std::ranges::sort(files, {}, [](const ReadFile& file) { return file.rank.rank; });
  put_on_one_clock(files);
  std::vector<RankEvents> ranks;
  for (ReadFile& file : files) ranks.push_back(std::move(file.rank));
  return ranks;
}

}  // namespace gradsync::watch

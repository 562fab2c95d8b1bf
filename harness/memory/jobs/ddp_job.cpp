#include <numeric>

#include "harness/memory/jobs/job_memory.h"
#include "harness/memory/jobs/recorded_pass.h"

namespace gradsync::memory {
namespace {

using measure::MemoryCategory;
using models::PassEvent;

class DdpJobStep {
 public:
  DdpJobStep(const DdpJob& job, const models::MemoryProfile& profile, MemoryAccount& account)
      : job_(job), profile_(profile), account_(account) {
    std::int64_t stepped = 0;
    std::int64_t tensors = 0;
    for (const models::RecordedParameter& parameter : profile.parameters) {
      const std::int64_t bytes = parameter.elements() * job.element_bytes;
      account_.hold(MemoryCategory::ShardedParameter, bytes);
      if (!parameter.trains) continue;
      stepped += bytes;
      ++tensors;
    }
    if (job.has_reducer) account_.hold(MemoryCategory::Communication, stepped);  // the buckets
    hold_moments(stepped, tensors, account_);
    hold_data(profile, account_);
  }

  // `after_a_sync`: the micro-batch before this one, in this step or the last, was synchronized.
  void micro_batch(int index, bool sync, bool after_a_sync) {
    account_.enter(index, "forward");
    if (job_.has_reducer && job_.broadcast_buffers && after_a_sync) broadcast_buffers();
    play(profile_.forward, account_, [&](const PassEvent& event) { visit(event); });
    account_.enter(index, "backward");
    const bool is_first = index == 0;
    play(is_first ? profile_.backward_first : profile_.backward_later, account_,
         [&](const PassEvent& event) {
           visit(event);
           if (event.kind == PassEvent::Kind::Gradient) take_gradient(event, is_first, sync);
         });
    account_.leave_units();
    if (sync && job_.has_reducer && job_.gradient_as_bucket_view) in_buckets_ = true;
  }

 private:
  void visit(const PassEvent& event) {
    if (event.kind == PassEvent::Kind::Enter) {
      account_.enter_unit(profile_.modules[event.index].name);
    }
  }

  void broadcast_buffers() {
    const auto& buffers = profile_.buffer_bytes;
    const std::int64_t packed = std::accumulate(buffers.begin(), buffers.end(), std::int64_t{0});
    account_.hold(MemoryCategory::Communication, packed);
    account_.free(MemoryCategory::Communication, packed);
  }

  // Autograd keeps a first gradient and adds a later one to it, which the recorded pass then frees.
  // The Reducer scales it into its bucket, and may leave it there alone.
  void take_gradient(const PassEvent& event, bool is_first, bool sync) {
    if (is_first) {
      account_.relabel(MemoryCategory::Activation, MemoryCategory::UnshardedGradient, event.net);
    }
    if (!job_.has_reducer || !sync) return;
    account_.with_number(MemoryCategory::Activation);
    if (!job_.gradient_as_bucket_view || in_buckets_) return;
    account_.free(MemoryCategory::UnshardedGradient,
                  profile_.parameters[event.index].elements() * job_.element_bytes);
  }

  const DdpJob& job_;
  const models::MemoryProfile& profile_;
  MemoryAccount& account_;
  bool in_buckets_ = false;  // gradients are there from a micro-batch before
};

}  // namespace

StepMemory ddp_job_memory(const DdpJob& job, const models::MemoryProfile& profile,
                          const std::vector<bool>& syncs) {
  MemoryAccount account;
  DdpJobStep step(job, profile, account);
  for (std::size_t i = 0; i < syncs.size(); ++i) {
    if (repeats(syncs, i)) continue;
    step.micro_batch(static_cast<int>(i), syncs[i], i == 0 ? syncs.back() : syncs[i - 1]);
  }
  play_optimizer(static_cast<int>(syncs.size()) - 1, account);
  return account.memory();
}

}  // namespace gradsync::memory

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
      : job_(job),
        profile_(profile),
        account_(account),
        model_(profile, account),
        gradients_(profile.parameters.size()) {
    for (const models::RecordedParameter& parameter : profile.parameters) {
      account_.hold(MemoryCategory::ShardedParameter, bytes_of(parameter));
    }
    hold_data(profile, account_);
    if (!job.has_reducer) return;
    broadcast_model();
    hold_buckets({trained_bytes()});  // one, until the order of gradients is known
  }

  void play(const std::vector<bool>& syncs) {
    for (std::size_t i = 0; i < syncs.size(); ++i) {
      if (repeats(syncs, i, account_)) continue;
      micro_batch(static_cast<int>(i), syncs[i], i == 0 ? syncs.back() : syncs[i - 1]);
    }
    play_optimizer(static_cast<int>(syncs.size()) - 1, account_);
  }

  void make_moments() {
    for (const models::RecordedParameter& parameter : profile_.parameters) {
      if (parameter.trains) hold_moments(bytes_of(parameter), account_);
    }
  }

  void end_step() {
    for (HeldTensor& gradient : gradients_) free_gradient(gradient);
    in_buckets_ = false;
  }

 private:
  // `after_a_sync`: the micro-batch before this one, in this step or the last, was synchronized.
  void micro_batch(int index, bool sync, bool after_a_sync) {
    account_.enter(index, "forward");
    if (job_.has_reducer) rebuild_buckets();
    if (job_.has_reducer && job_.broadcast_buffers && after_a_sync) broadcast_buffers();
    model_.play(profile_.forward, [&](const PassEvent& event) { visit(event); });
    account_.enter(index, "backward");
    const bool is_first = index == 0;
    model_.play(is_first ? profile_.backward_first : profile_.backward_later,
                [&](const PassEvent& event) {
                  visit(event);
                  if (event.kind == PassEvent::Kind::Gradient) take_gradient(event, is_first, sync);
                });
    account_.leave_units();
    has_synced_ = has_synced_ || sync;
    if (sync && job_.has_reducer && job_.gradient_as_bucket_view) in_buckets_ = true;
  }

  std::int64_t bytes_of(const models::RecordedParameter& parameter) const {
    return parameter.elements() * job_.element_bytes;
  }

  std::int64_t trained_bytes() const {
    std::int64_t bytes = 0;
    for (const models::RecordedParameter& parameter : profile_.parameters) {
      if (parameter.trains) bytes += bytes_of(parameter);
    }
    return bytes;
  }

  // DDP's constructor packs rank 0's parameters into messages, of which two are on their way.
  // Source: broadcast_coalesced (torch/csrc/distributed/c10d/comm.cpp).
  void broadcast_model() {
    constexpr std::int64_t kMessageBytes = std::int64_t{250} << 20;
    std::vector<std::int64_t> parameters;
    for (const models::RecordedParameter& parameter : profile_.parameters) {
      parameters.push_back(bytes_of(parameter));
    }
    std::vector<HeldTensor> sent;
    for (const std::int64_t bytes : bucket_bytes(parameters, {kMessageBytes, kMessageBytes})) {
      if (sent.size() == 2) {
        account_.free(sent.front());
        sent.erase(sent.begin());
      }
      sent.push_back(account_.hold_tensor(MemoryCategory::Communication, bytes));
    }
    account_.free(sent);
  }

  void hold_buckets(const std::vector<std::int64_t>& bytes) {
    account_.free(buckets_);
    for (const std::int64_t bucket : bytes) {
      buckets_.push_back(account_.hold_tensor(MemoryCategory::Communication, bucket));
    }
  }

  // The first forward after a synchronized backward, in the order of whose gradients it fills them.
  void rebuild_buckets() {
    if (!has_synced_ || is_rebuilt_) return;
    is_rebuilt_ = true;
    std::vector<std::int64_t> ready;
    for (const PassEvent& event : profile_.backward_first) {
      if (event.kind != PassEvent::Kind::Gradient) continue;
      ready.push_back(bytes_of(profile_.parameters[event.index]));
    }
    hold_buckets(bucket_bytes(ready, job_.buckets));
  }

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
    HeldTensor& gradient = gradients_[event.index];
    if (is_first) gradient = model_.take_gradient(event);
    if (!job_.has_reducer || !sync) return;
    account_.with_number(MemoryCategory::Activation);
    if (job_.gradient_as_bucket_view && !in_buckets_) free_gradient(gradient);
  }

  void free_gradient(HeldTensor& gradient) {
    account_.free(gradient);
    gradient = {MemoryCategory::UnshardedGradient};
  }

  const DdpJob& job_;
  const models::MemoryProfile& profile_;
  MemoryAccount& account_;
  RecordedModel model_;
  std::vector<HeldTensor> gradients_;  // by parameter
  std::vector<HeldTensor> buckets_;
  bool has_synced_ = false;
  bool is_rebuilt_ = false;
  bool in_buckets_ = false;  // gradients are there from a micro-batch before
};

}  // namespace

StepMemory ddp_job_memory(const DdpJob& job, const models::MemoryProfile& profile,
                          const std::vector<bool>& syncs) {
  MemoryAccount account = account_of(profile);
  DdpJobStep step(job, profile, account);
  return steady_memory(step, syncs, account);
}

}  // namespace gradsync::memory

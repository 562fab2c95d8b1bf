#include <optional>
#include <string>
#include <unordered_map>

#include "harness/memory/jobs/recorded_pass.h"
#include "harness/memory/jobs/shard_group.h"

namespace gradsync::memory {
namespace {

using measure::MemoryCategory;
using models::PassEvent;

// Which group a module is the unit of, and which one a parameter is in. Group 0 is the model's.
struct Grouping {
  std::vector<std::optional<std::size_t>> of_module;
  std::vector<std::size_t> of_parameter;
  std::size_t groups = 1;
};

// A parameter is in the innermost unit around it.
Grouping group(const models::MemoryProfile& profile, const std::vector<std::size_t>& units) {
  Grouping grouping;
  grouping.of_module.resize(profile.modules.size());
  for (std::size_t i = 0; i < profile.modules.size(); ++i) {
    if (profile.modules[i].name.empty()) grouping.of_module[i] = 0;
  }
  std::unordered_map<std::string, std::size_t> by_name;
  for (const std::size_t unit : units) {
    by_name[profile.modules[unit].name] = grouping.groups;
    grouping.of_module[unit] = grouping.groups++;
  }
  for (const models::RecordedParameter& parameter : profile.parameters) {
    std::size_t innermost = 0;
    std::string around = parameter.name;
    while (innermost == 0 && !around.empty()) {
      const auto dot = around.rfind('.');
      around.resize(dot == std::string::npos ? 0 : dot);
      if (const auto found = by_name.find(around); found != by_name.end()) {
        innermost = found->second;
      }
    }
    grouping.of_parameter.push_back(innermost);
  }
  return grouping;
}

class FullyShardStep {
 public:
  FullyShardStep(const FullyShardJob& job, const models::MemoryProfile& profile,
                 MemoryAccount& account)
      : job_(job),
        profile_(profile),
        account_(account),
        model_(profile, account),
        context_{account},
        grouping_(group(profile, job.units)) {
    std::vector<std::vector<std::size_t>> parameters(grouping_.groups);
    for (std::size_t i = 0; i < profile.parameters.size(); ++i) {
      parameters[grouping_.of_parameter[i]].push_back(i);
    }
    for (std::size_t i = 0; i < grouping_.groups; ++i) {
      groups_.emplace_back(job, profile, parameters[i], i == 0, context_);
    }
    for (std::size_t i = 1; i < grouping_.groups; ++i) groups_[i].shard();
    groups_.front().shard();
    hold_data(profile, account);
    // Each call that is given no mesh makes one: the numbers of its ranks.
    constexpr std::int64_t kRankNumberBytes = 4;
    account.hold_beside(MemoryCategory::Other,
                        static_cast<std::int64_t>(grouping_.groups) * job.ranks * kRankNumberBytes);
  }

  void play(const std::vector<bool>& syncs) {
    // Those that are kept in another type leave autograd nothing to add to.
    const bool stays = job_.reduce_bytes == job_.param_bytes;
    for (std::size_t i = 0; i < syncs.size(); ++i) {
      if (repeats(syncs, i, account_)) continue;
      micro_batch(static_cast<int>(i), syncs[i], stays && i > 0 && !syncs[i - 1]);
    }
    play_optimizer(static_cast<int>(syncs.size()) - 1, account_);
  }

  void make_moments() {
    for (ShardGroup& group : groups_) group.make_moments();
  }

  void end_step() {
    for (ShardGroup& group : groups_) group.end_step();
  }

 private:
  // `adds`: unsharded gradients are there from the micro-batch before.
  void micro_batch(int index, bool sync, bool adds) {
    account_.enter(index, "forward");
    used_.clear();
    model_.play(profile_.forward, [&](const PassEvent& event) { visit_forward(event); });
    account_.leave_units();
    account_.enter(index, "backward");
    model_.play(adds ? profile_.backward_later : profile_.backward_first,
                [&](const PassEvent& event) { visit_backward(event, sync, !adds); });
    account_.leave_units();
    end_backward(sync);
  }

  struct Use {
    ShardGroup* group = nullptr;
    bool is_met = false;  // by backward
  };

  ShardGroup* group_of(const PassEvent& event) {
    const auto group = grouping_.of_module[event.index];
    return group ? &groups_[*group] : nullptr;
  }

  void visit_forward(const PassEvent& event) {
    ShardGroup* const group = group_of(event);
    if (group == nullptr) return;
    if (event.kind == PassEvent::Kind::Enter) {
      account_.enter_unit(profile_.modules[event.index].name);
      group->enter_forward();
      return;
    }
    group->leave_forward();
    if (!group->empty()) used_.push_back({group});
    if (group == &groups_.front()) {  // the model's forward ends
      account_.free(context_.kept_gather);
    }
  }

  void visit_backward(const PassEvent& event, bool sync, bool is_made) {
    if (event.kind == PassEvent::Kind::Gradient) {
      if (!is_made) return;
      groups_[grouping_.of_parameter[event.index]].take_gradient(event.index,
                                                                 model_.take_gradient(event));
      return;
    }
    ShardGroup* const group = group_of(event);
    if (group == nullptr) return;
    if (event.kind == PassEvent::Kind::Leave) {
      group->leave_backward(sync);
      return;
    }
    account_.enter_unit(profile_.modules[event.index].name);
    if (group->enter_backward()) gather_before(group);
  }

  // The group that forward used before this use of `group` is gathered ahead; each use is met once.
  void gather_before(const ShardGroup* group) {
    for (std::size_t i = used_.size(); i-- > 0;) {
      if (used_[i].group != group || used_[i].is_met) continue;
      used_[i].is_met = true;
      if (i > 0) used_[i - 1].group->gather();
      return;
    }
  }

  // Groups whose inputs need no gradient reduce at the end, in the order of modules.
  void end_backward(bool sync) {
    for (ShardGroup& group : groups_) {
      if (!group.is_left()) group.leave_backward(sync);
      group.end_backward();
    }
    account_.free(context_.kept_reduce);
  }

  const FullyShardJob& job_;
  const models::MemoryProfile& profile_;
  MemoryAccount& account_;
  RecordedModel model_;
  ShardContext context_;
  Grouping grouping_;
  std::vector<ShardGroup> groups_;
  std::vector<Use> used_;  // by forward, in order
};

}  // namespace

StepMemory fully_shard_job_memory(const FullyShardJob& job, const models::MemoryProfile& profile,
                                  const std::vector<bool>& syncs) {
  MemoryAccount account = account_of(profile);
  FullyShardStep step(job, profile, account);
  return steady_memory(step, syncs, account);
}

}  // namespace gradsync::memory

#include "harness/watch/judge/replicas.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace gradsync::watch {
namespace {

// One parameter on one rank.
struct Copy {
  const RankEvents* rank = nullptr;
  const TrackedOptimizer* optimizer = nullptr;
  const TrackedParameter* parameter = nullptr;
};

// Tells parameters apart: the same on all ranks that have one. A parameter that only some ranks
// step has another place on each, so its name tells it.
using Key = std::tuple<std::int64_t, int, std::string, std::int64_t>;
constexpr int kByName = -1;

template <typename See>  // of a rank, an optimizer's number, the optimizer and its parameter
void for_each_whole(std::span<const RankEvents* const> ranks, See see) {
  for (const RankEvents* rank : ranks) {
    for (const auto& [object, optimizer] : rank->optimizers) {
      for (const TrackedParameter& parameter : optimizer.parameters) {
        if (parameter.is_whole) see(*rank, object, optimizer, parameter);
      }
    }
  }
}

// Whether some rank steps it, and none has several of its name.
bool is_of_one(const std::vector<Copy>& copies) {
  return std::ranges::any_of(copies, [](const Copy& copy) { return copy.parameter->is_stepped; }) &&
         std::ranges::adjacent_find(copies, {}, &Copy::rank) == copies.end();
}

std::map<Key, std::vector<Copy>> copies_of(std::span<const RankEvents* const> ranks) {
  std::set<std::pair<std::int64_t, std::string>> by_name;
  for_each_whole(ranks, [&](const RankEvents&, std::int64_t object, const TrackedOptimizer&,
                            const TrackedParameter& parameter) {
    if (!parameter.is_stepped) by_name.emplace(object, parameter.name);
  });
  std::map<Key, std::vector<Copy>> copies;
  for_each_whole(ranks, [&](const RankEvents& rank, std::int64_t object,
                            const TrackedOptimizer& optimizer, const TrackedParameter& parameter) {
    const bool is_by_name = by_name.contains({object, parameter.name});
    const int index = is_by_name ? kByName : parameter.index;
    copies[{object, index, parameter.name, parameter.elements}].push_back(
        {&rank, &optimizer, &parameter});
  });
  std::erase_if(copies, [](const auto& of) { return !is_of_one(of.second); });
  return copies;
}

// The ranks of the group in which a wrapper reduces this; empty: not known.
std::vector<int> ranks_of_group(const Copy& copy) {
  if (copy.parameter->owner != Owner::Wrapper) return {};
  const Group* group = group_named(*copy.rank, copy.parameter->group);
  return group == nullptr ? std::vector<int>() : group->ranks;
}

// Those that a wrapper keeps alike with the first. A group of one keeps nothing alike.
std::vector<std::vector<Copy>> groups_of(const std::vector<Copy>& copies) {
  std::map<std::vector<int>, std::vector<Copy>> by_ranks;
  for (const Copy& copy : copies) {
    std::vector<int> ranks = ranks_of_group(copy);
    if (ranks.size() == 1) ranks.clear();
    by_ranks[std::move(ranks)].push_back(copy);
  }
  std::vector<std::vector<Copy>> groups;
  for (auto& [ranks, group] : by_ranks) groups.push_back(std::move(group));
  return groups;
}

// What a look has of the copy, in its values or samples; null: it has nothing.
template <typename ByIndex>
const typename ByIndex::mapped_type* part_of(const ByIndex& by_index, const Copy& copy) {
  const auto found = by_index.find(std::to_string(copy.parameter->index));
  return found == by_index.end() ? nullptr : &found->second;
}

// The look that another rank took as well; null where this one did not.
const HashLook* same_look(const Copy& copy, const HashLook& as) {
  const auto& looks = copy.optimizer->looks;
  const auto found = std::ranges::find_if(looks, [&](const HashLook& look) {
    return look.step == as.step && look.is_last == as.is_last;
  });
  return found == looks.end() ? nullptr : &*found;
}

const std::string* value_at(const Copy& copy, const HashLook& as) {
  const HashLook* look = same_look(copy, as);
  return look == nullptr ? nullptr : part_of(look->values, copy);
}

// At the looks that all of them took, in order: whether they are equal.
std::vector<std::pair<std::int64_t, bool>> equal_at(const std::vector<Copy>& copies) {
  std::vector<std::pair<std::int64_t, bool>> looks;
  for (const HashLook& look : copies.front().optimizer->looks) {
    std::set<std::string> values;
    bool have_all = true;
    for (const Copy& copy : copies) {
      const std::string* value = value_at(copy, look);
      have_all &= value != nullptr;
      if (value != nullptr) values.insert(*value);
    }
    if (have_all) looks.emplace_back(look.step, values.size() == 1);
  }
  return looks;
}

// Those that have the same value at their first look, in parts of two and more.
std::vector<std::vector<Copy>> equal_at_first(const std::vector<Copy>& copies) {
  std::map<std::pair<std::int64_t, std::string>, std::vector<Copy>> by_value;
  for (const Copy& copy : copies) {
    const auto& looks = copy.optimizer->looks;
    const auto first = std::ranges::find_if(
        looks, [&](const HashLook& look) { return part_of(look.values, copy) != nullptr; });
    if (first != looks.end())
      by_value[{first->step, *part_of(first->values, copy)}].push_back(copy);
  }
  std::vector<std::vector<Copy>> parts;
  for (auto& [value, part] : by_value) {
    if (part.size() > 1) parts.push_back(std::move(part));
  }
  return parts;
}

bool are_on_unlike_hardware(const std::vector<Copy>& copies) {
  return std::ranges::any_of(copies, [&](const Copy& copy) {
    return copy.optimizer->hardware != copies.front().optimizer->hardware;
  });
}

// By how much the copies' samples differ at a look, relative to the largest of their numbers.
double difference_at(const std::vector<Copy>& copies, const HashLook& as) {
  std::vector<const std::vector<double>*> samples;
  for (const Copy& copy : copies) {
    const HashLook* look = same_look(copy, as);
    const auto* sample = look == nullptr ? nullptr : part_of(look->samples, copy);
    if (sample != nullptr) samples.push_back(sample);
  }
  double largest = 0;
  double difference = 0;
  for (const std::vector<double>* sample : samples) {
    for (std::size_t i = 0; i < std::min(sample->size(), samples.front()->size()); ++i) {
      largest = std::max(largest, std::abs(sample->at(i)));
      difference = std::max(difference, std::abs(sample->at(i) - samples.front()->at(i)));
    }
  }
  return largest > 0 ? difference / largest : 0;
}

// Whether copies drift further than other rounding takes them.
bool difference_grows(const std::vector<Copy>& copies, std::int64_t differs_from) {
  constexpr double kOfRounding = 1e-3;
  constexpr double kGrows = 10;
  double first = 0;
  double last = 0;
  for (const HashLook& look : copies.front().optimizer->looks) {
    if (look.step < differs_from) continue;
    last = difference_at(copies, look);
    if (first == 0) first = last;
  }
  return last > kOfRounding && last > kGrows * first;
}

void see_looks(ParameterFate& of, const std::vector<Copy>& copies) {
  std::optional<std::int64_t> differs_from;
  std::int64_t equal_until = 0;
  std::vector<std::int64_t> equal_again;
  for (const auto& [step, are_equal] : equal_at(copies)) {
    if (are_equal && !differs_from) equal_until = step;
    if (!are_equal && !differs_from) differs_from = step;
    if (are_equal && differs_from) equal_again.push_back(step);
  }
  const bool rounds =
      differs_from && are_on_unlike_hardware(copies) && !difference_grows(copies, *differs_from);
  const Fate fate = !differs_from          ? Fate::Equal
                    : rounds               ? Fate::Rounds
                    : !equal_again.empty() ? Fate::Rejoins
                                           : Fate::Drifts;
  // The worst part decides.
  if (of.fate == Fate::Drifts || (of.fate == Fate::Rejoins && fate == Fate::Equal)) return;
  of.fate = fate;
  of.equal_until = equal_until;
  of.differs_from = differs_from.value_or(0);
  of.equal_again = std::move(equal_again);
}

ParameterFate fate_of(std::int64_t object, const std::vector<Copy>& copies) {
  ParameterFate of{.optimizer = copies.front().optimizer,
                   .parameter = copies.front().parameter,
                   .object = object,
                   .is_stepped_by_some = std::ranges::any_of(
                       copies, [](const Copy& copy) { return !copy.parameter->is_stepped; })};
  for (const std::vector<Copy>& group : groups_of(copies)) {
    if (group.size() < 2) continue;
    const auto parts = equal_at_first(group);
    if (parts.empty() && of.fate == Fate::Unknown) {
      of.fate = Fate::Own;
      const auto looks = equal_at(group);
      of.is_never_equal = !looks.empty() &&
                          std::ranges::none_of(looks, [](const auto& look) { return look.second; });
    }
    for (const std::vector<Copy>& part : parts) see_looks(of, part);
  }
  return of;
}

bool is_reduced(const TrackedParameter& parameter) {
  return parameter.owner == Owner::Wrapper || parameter.owner == Owner::Buffer;
}

// Whether the job says that its gradient is to be reduced.
bool is_meant_as_replica(const TrackedParameter& parameter) {
  return parameter.meant != Meant::Nothing && parameter.meant != Meant::Own;
}

// Constants are equal at first on all ranks, be they an expert's or a stage's. Where other
// parameters that no wrapper reduces are each rank's own, so may these be, unless the job says what
// they are.
void excuse_constants(std::vector<ParameterFate>& fates) {
  const bool some_are_own = std::ranges::any_of(fates, [](const ParameterFate& of) {
    return of.fate == Fate::Own && !is_reduced(*of.parameter) &&
           of.parameter->owner != Owner::Frozen;
  });
  for (ParameterFate& of : fates) {
    const bool may_be_own = of.parameter->is_constant && !is_reduced(*of.parameter) &&
                            !is_meant_as_replica(*of.parameter);
    if (some_are_own && may_be_own && of.fate == Fate::Drifts) of.fate = Fate::Unknown;
  }
}

const TrackedParameter* parameter_of(const RankEvents& rank, const Exchange::Member& member) {
  const auto optimizer = rank.optimizers.find(member.object);
  if (optimizer == rank.optimizers.end()) return nullptr;
  const auto found =
      std::ranges::find(optimizer->second.parameters, member.index, &TrackedParameter::index);
  return found == optimizer->second.parameters.end() ? nullptr : &*found;
}

// Whether it moves gradients alone, and a wrapper reduces each of these.
bool is_of_reduced(const Exchange& exchange, const RankEvents& rank) {
  return moves_gradients(exchange) && exchange.name == "all_reduce" &&
         std::ranges::all_of(exchange.members, [&](const Exchange::Member& member) {
           const TrackedParameter* parameter = parameter_of(rank, member);
           return parameter != nullptr && parameter->owner == Owner::Wrapper;
         });
}

using Line = std::tuple<std::string, std::string, int>;  // operation, file, line

Line line_of(const Exchange& exchange) {
  return {exchange.name, exchange.file, exchange.line};
}

// What the exchanges of one line moved, by step, on each rank.
using Moved = std::map<std::int64_t, std::vector<std::string>>;

Moved moved_by(const Line& line, std::span<const RankEvents* const> ranks) {
  Moved moved;
  for (const RankEvents* rank : ranks) {
    for (const Exchange& exchange : rank->exchanges) {
      if (line_of(exchange) == line) moved[exchange.step].push_back(exchange.value);
    }
  }
  return moved;
}

// In more than one step, on all ranks.
bool is_of_equals(const Moved& moved, std::size_t ranks) {
  return moved.size() > 1 && std::ranges::all_of(moved, [&](const auto& step) {
           const std::vector<std::string>& values = step.second;
           return values.size() == ranks &&
                  std::ranges::adjacent_find(values, std::not_equal_to<>()) == values.end();
         });
}

}  // namespace

std::vector<const Exchange*> exchanges_of_equals(std::span<const RankEvents* const> ranks) {
  std::map<Line, const Exchange*> last;
  for (const Exchange& exchange : ranks.front()->exchanges) last[line_of(exchange)] = &exchange;
  std::vector<const Exchange*> found;
  for (const auto& [line, exchange] : last) {
    if (ranks.size() > 1 && is_of_reduced(*exchange, *ranks.front()) &&
        is_of_equals(moved_by(line, ranks), ranks.size())) {
      found.push_back(exchange);
    }
  }
  return found;
}

std::vector<ParameterFate> fates_of(std::span<const RankEvents* const> ranks) {
  std::vector<ParameterFate> fates;
  for (const auto& [key, copies] : copies_of(ranks)) {
    if (copies.size() > 1) fates.push_back(fate_of(std::get<0>(key), copies));
  }
  excuse_constants(fates);
  return fates;
}

bool moves_gradients(const Exchange& exchange) {
  return exchange.what == Exchange::What::Gradient || exchange.what == Exchange::What::Copy;
}

bool is_of(const ParameterFate& of, const Exchange& exchange) {
  return std::ranges::any_of(exchange.members, [&](const Exchange::Member& member) {
    return member.object == of.object && member.index == of.parameter->index;
  });
}

bool is_exchanged(const ParameterFate& of, const RankEvents& rank) {
  return std::ranges::any_of(rank.exchanges, [&](const Exchange& exchange) {
    return exchange.what != Exchange::What::OuterGradient && is_of(of, exchange);
  });
}

bool is_kept_equal(const ParameterFate& of, const RankEvents& rank) {
  return of.fate == Fate::Equal && of.parameter->owner != Owner::Buffer &&
         (of.parameter->owner == Owner::Wrapper || is_exchanged(of, rank));
}

}  // namespace gradsync::watch

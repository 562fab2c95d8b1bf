#include "harness/fit/composition.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace gradsync::fit {
namespace {

constexpr std::array kCommunicates = {"/torch/distributed/", "/torch/nn/parallel/"};

const Site* site_of(const Block& block, const Allocations& allocations) {
  const auto found = allocations.sites.find(block.site);
  return found == allocations.sites.end() ? nullptr : &found->second;
}

const ModuleName* module_of(const Site* site, const Allocations& allocations) {
  if (site == nullptr) return nullptr;
  const auto found = allocations.modules.find(site->module);
  return found == allocations.modules.end() ? nullptr : &found->second;
}

// Decides it of one block, by what told of it, who asked for it, and how long it lived.
class Sorter {
 public:
  Sorter(const Allocations& allocations, const Phases& phases)
      : allocations_(allocations), phases_(phases) {}

  Category category_of(const Block& block) const {
    if (block.holds) return of(*block.holds);
    if (is_communication(block)) return Category::Communication;
    const Phase begun = phase_of(block.allocated);
    const bool outlives = block.freed == allocations_.records.size();  // a job that was ended, too
    const StepPlace end = outlives ? StepPlace{} : place_of(block.freed);
    if (begun == Phase::Backward) {
      return is_held_back(block, outlives) ? Category::Gradients : Category::Other;
    }
    if (begun == Phase::Optimizer) return Category::Other;
    const bool is_saved = end.phase == Phase::Backward || (outlives && is_of_module(block));
    return is_saved ? Category::Activations : Category::Other;
  }

 private:
  // Gradients go at a step's end: what outlives several steps is a library's workspace.
  bool is_held_back(const Block& block, bool outlives) const {
    const StepPlace begin = place_of(block.allocated);
    const StepPlace end = place_of(std::min(block.freed, allocations_.records.size() - 1));
    if (outlives) return end.step == begin.step;
    return end.phase != Phase::Backward || end.micro_batch != begin.micro_batch;
  }

  bool is_of_module(const Block& block) const {
    return module_of(site_of(block, allocations_), allocations_) != nullptr;
  }

  static Category of(Holds holds) {
    switch (holds) {
      case Holds::Parameter:
        return Category::Parameters;
      case Holds::Gradient:
        return Category::Gradients;
      case Holds::OptimizerState:
        return Category::OptimizerState;
      case Holds::Workspace:
        return Category::Workspaces;
    }
    return Category::Other;
  }

  bool is_communication(const Block& block) const {
    const Site* site = site_of(block, allocations_);
    return site != nullptr && std::ranges::any_of(kCommunicates, [&](const char* folder) {
             return site->file.find(folder) != std::string::npos;
           });
  }

  StepPlace place_of(std::size_t record) const {
    return phases_.at(allocations_.records[record].time_ns);
  }
  Phase phase_of(std::size_t record) const { return place_of(record).phase; }

  const Allocations& allocations_;
  const Phases& phases_;
};

// "LlamaMLP", or the line of Python that asked.
std::string who_asked(const Block& block, const Allocations& allocations) {
  const Site* site = site_of(block, allocations);
  if (site == nullptr) return "autograd";
  if (const ModuleName* module = module_of(site, allocations)) return module->kind;
  return fmt::format("{}:{}", site->file.substr(site->file.rfind('/') + 1), site->line);
}

std::vector<Share> largest_first(const std::map<std::string, std::int64_t>& sums) {
  std::vector<Share> shares;
  for (const auto& [who, bytes] : sums) shares.push_back({who, bytes});
  std::ranges::sort(shares, std::ranges::greater(), &Share::bytes);
  return shares;
}

}  // namespace

const char* name_of(Category category) {
  switch (category) {
    case Category::Parameters:
      return "parameters";
    case Category::Gradients:
      return "gradients";
    case Category::OptimizerState:
      return "optimizer_state";
    case Category::Activations:
      return "activations";
    case Category::Workspaces:
      return "workspaces";
    case Category::Communication:
      return "communication";
    case Category::Other:
      return "other";
    case Category::Rounding:
      return "rounding";
  }
  return "";
}

std::vector<Part> composition_at(const Highest& peak, const std::vector<Block>& blocks,
                                 const Allocations& allocations, const Phases& phases) {
  const Sorter sorter(allocations, phases);
  std::map<Category, std::map<std::string, std::int64_t>> sums;
  std::int64_t asked = 0;
  for (const Block& block : blocks) {
    if (block.allocated > peak.record || block.freed <= peak.record) continue;
    const auto bytes = static_cast<std::int64_t>(block.size);
    sums[sorter.category_of(block)][who_asked(block, allocations)] += bytes;
    asked += bytes;
  }
  if (peak.bytes != asked) sums[Category::Rounding][""] = peak.bytes - asked;
  std::vector<Part> parts;
  for (const auto& [category, by_whom] : sums) {
    Part part{category, 0, largest_first(by_whom)};
    for (const Share& share : part.shares) part.bytes += share.bytes;
    if (category == Category::Rounding) part.shares.clear();
    parts.push_back(std::move(part));
  }
  return parts;
}

std::string module_at(std::size_t record, const std::vector<Block>& blocks,
                      const Allocations& allocations) {
  const Block* asked = nullptr;
  const Block* last = nullptr;
  for (const Block& block : blocks) {
    if (block.allocated == record) asked = &block;
    const ModuleName* module = module_of(site_of(block, allocations), allocations);
    const bool is_later = last == nullptr || block.freed > last->freed;
    if (block.freed < record && module != nullptr && is_later) last = &block;
  }
  for (const Block* block : {asked, last}) {
    if (block == nullptr) continue;
    const ModuleName* module = module_of(site_of(*block, allocations), allocations);
    if (module != nullptr) return module->name.empty() ? module->kind : module->name;
  }
  return "";
}

}  // namespace gradsync::fit

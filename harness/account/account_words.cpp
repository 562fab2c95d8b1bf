#include "harness/account/account_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/account/weight_words.h"

namespace gradsync::account {
namespace {

// " at train.py line 48", " inside skorch, net.py line 1011, called from train.py line 48"; ""
// where it is not known.
std::string at_place(const GradientCall& call) {
  const std::string own =
      call.file.empty()
          ? ""
          : fmt::format("{} line {}", call.file.substr(call.file.rfind('/') + 1), call.line);
  if (call.inside.empty()) return own.empty() ? "" : " at " + own;
  return fmt::format(" inside {}{}", library_text(call.inside, call.inside_line),
                     own.empty() ? "" : ", called from " + own);
}

bool clips(const GradientCall& call) {
  return !clears(call.what);
}

}  // namespace

std::string library_text(const std::string& inside, int line) {
  std::string text = inside;
  if (const auto slash = text.find('/'); slash != std::string::npos) text.replace(slash, 1, ", ");
  return fmt::format("{} line {}", text, line);
}

std::string lost_text(const std::vector<int>& ranks) {
  return ranks_text(ranks) + " left no account that can be read";
}

std::string cleared_text(const std::vector<GradientCall>& calls, int lost) {
  const auto call = std::ranges::find_if(
      calls, [&](const GradientCall& each) { return clears(each.what) && each.after == lost; });
  if (lost == 0 || call == calls.end()) return "";
  return fmt::format(": {} cleared{} before an optimizer read {}",
                     lost == 1 ? "it was" : "they were", at_place(*call),
                     lost == 1 ? "it" : "them");
}

std::string clipping_text(const StepAccount& account) {
  const auto call = std::ranges::find_if(account.calls, clips);
  if (call == account.calls.end()) return "";
  std::set<int> behind;
  for (const GradientCall& each : account.calls) {
    if (clips(each)) behind.insert(each.after);
  }
  const std::string how =
      call->what == GradientCallKind::ClipValue ? ", each element by itself" : "";
  if (account.micro_batches > 1 && std::ssize(behind) == account.micro_batches) {
    return fmt::format("gradients were clipped in every micro-batch{}{}", at_place(*call), how);
  }
  if (*behind.begin() < account.micro_batches) {
    return fmt::format("gradients were clipped between micro-batches{}{}", at_place(*call), how);
  }
  return how.empty() ? "" : fmt::format("gradients were clipped{}{}", at_place(*call), how);
}

std::string clipped_text(const std::vector<GradientCall>& calls) {
  const auto call = std::ranges::find_if(calls, clips);
  return call == calls.end() ? "" : fmt::format(": they were clipped{}", at_place(*call));
}

std::string shards_text(const std::vector<ShardFactor>& shards, bool are_clipped) {
  const auto [least, most] = std::ranges::minmax(shards, {}, &ShardFactor::factor);
  return fmt::format(
      "shards of one gradient were {} apart, by factors {:.3g} to 1: rank {}'s weighs {:.3g} x "
      "rank "
      "{}'s",
      are_clipped ? "clipped" : "scaled", most.factor, most.rank, most.factor, least.rank);
}

std::string shards_clipped_text(const std::vector<GradientCall>& calls) {
  const auto call = std::ranges::find_if(
      calls, [](const GradientCall& each) { return each.what == GradientCallKind::ClipNorm; });
  if (call == calls.end()) return "each rank scaled its own shards by a factor of its own";
  return fmt::format(
      "torch.nn.utils.clip_grad_norm_{} sees a rank's own shards alone: use the model's own "
      "clip_grad_norm_",
      at_place(*call));
}

std::string made_up_text(double factor, int micro_batches, int usual) {
  return fmt::format("{:.4g} x what the loss says: its {} micro-batch{} as much as the usual {}",
                     factor, micro_batches, micro_batches == 1 ? " weighs" : "es weigh", usual);
}

std::string windows_text(int count, int steps, int divisor, const std::set<int>& lengths) {
  return fmt::format("in {} of {} steps losses are divided by {} micro-batches, and there are {}",
                     count, steps, divisor, fmt::join(lengths, " or "));
}

std::string in_steps_text(int count, int steps, int micro_batches, const std::string& sentence) {
  const std::string of = micro_batches == 0
                             ? ""
                             : fmt::format(", of {} micro-batch{} each,", micro_batches,
                                           micro_batches == 1 ? "" : "es");
  return fmt::format("in {} of {} steps{} {}", count, steps, of, sentence);
}

}  // namespace gradsync::account

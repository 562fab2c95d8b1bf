#include "harness/comm/agreement.h"

#include <fmt/format.h>

#include <chrono>

#include "harness/base/errors.h"

namespace gradsync::comm {

bool Agreement::all_say(bool yes) {
  if (ranks_ == 1) return yes;
  // A yes adds 1, a no so much more that no number of votes is mistaken for another.
  constexpr std::int64_t kNo = std::int64_t{1} << 32;
  const std::string question = fmt::format("gradsync/agreement/{}", questions_++);
  const std::string answer = question + "/answer";
  try {
    const std::int64_t votes = store_->add(question, yes ? 1 : kNo + 1);
    if (votes % kNo == ranks_) {  // this rank's was the last
      store_->set(answer, std::string(votes == ranks_ ? "yes" : "no"));
    }
    store_->wait({answer}, std::chrono::milliseconds(static_cast<std::int64_t>(timeout_s_ * 1e3)));
    return store_->get_to_str(answer) == "yes";
  } catch (const std::exception& error) {
    throw CommError(
        fmt::format("a rank did not say within {} s whether its micro-batches repeat", timeout_s_),
        true);
  }
}

}  // namespace gradsync::comm

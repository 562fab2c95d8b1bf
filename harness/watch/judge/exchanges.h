// What the ranks of a job exchange beside gradients, as its account asks: whether they may have
// parts of one model, or average its parameters now and then.
#pragma once

#include <vector>

#include "harness/account/account_verdict.h"
#include "harness/watch/read/event.h"

namespace gradsync::watch {

// Whether it moves tokens to experts, or activations to the next stage of a pipeline.
bool sends_parts(const Event& collective);

account::OtherExchanges exchanges_of(const std::vector<RankEvents>& processes);

}  // namespace gradsync::watch

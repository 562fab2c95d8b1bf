// One factory per strategy, for the registry alone.
#pragma once

#include <memory>

#include "harness/sync/strategies/strategy.h"

namespace gradsync::sync {

std::unique_ptr<Strategy> make_baseline();
std::unique_ptr<Strategy> make_no_sync_improper();
std::unique_ptr<Strategy> make_no_sync();
std::unique_ptr<Strategy> make_accumulate();
std::unique_ptr<Strategy> make_sync_each_batch();
std::unique_ptr<Strategy> make_pipelined();

}  // namespace gradsync::sync

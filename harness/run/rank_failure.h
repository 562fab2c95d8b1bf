// What a rank tells its launcher when it cannot go on.
#pragma once

#include <exception>
#include <string>

#include "harness/launch/rank_page.h"

namespace gradsync::run {

struct RankFailure {
  std::string status = "failed";  // or timeout, oom, config, unfit, internal
  bool by_peer = false;           // a collective failed because of another rank
  std::string what;
};

// Returns what `error`, which reached the rank's top, stands for. `page`: where the rank was.
RankFailure rank_failure(const std::exception& error, const launch::RankPage& page);

}  // namespace gradsync::run

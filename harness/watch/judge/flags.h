// The flags by which a job tells fully_shard what to do, such as set_requires_all_reduce.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/watch/read/event.h"

namespace gradsync::watch {

// One place of the job that sets one flag, on roots or on modules below them.
struct Flag {
  std::string name;         // of the method
  bool is_on_root = false;  // of models that ran
  std::string file;         // empty: not known
  int line = 0;             // 0: not known
  std::int64_t on = 0;      // how often it was set to True,
  std::int64_t off = 0;     // and to False
};

// Returns the flags that a process set, by the first time of each.
std::vector<Flag> flags_of(const RankEvents& process);

// "set_requires_all_reduce on the model: 6 x True, 18 x False, train.py line 14"
std::string flag_text(const Flag& flag);

}  // namespace gradsync::watch

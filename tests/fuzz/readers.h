// Every reader of a file that somebody may have written by hand, or that was damaged, as a function
// of the file's bytes: what fuzzers call, and what a test calls with the corpus.
//
// Each returns whether the reader accepts the bytes. It may refuse by ConfigError and by nothing
// else: another exception, a crash, a hang or an allocation without bound is a bug.
#pragma once

#include <string_view>
#include <vector>

namespace gradsync::fuzz {

struct Reader {
  std::string_view name;  // of its file in the corpus
  bool (*accepts)(std::string_view bytes);
};

// "data", "foreign", "gate", "plan", "profile", "result", "safetensors", "shard_index", "topology",
// "trials", "turns", "watch", "watch_events", "watch_hook".
const std::vector<Reader>& readers();

}  // namespace gradsync::fuzz

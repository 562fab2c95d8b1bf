// A file of examples to train on: JSON Lines, each {"input_ids": [token, ...], "label": 0 or 1}.
// No torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gradsync::models {

struct Example {
  std::vector<std::int64_t> ids;
  std::int64_t label = 0;
};

// Returns the examples of `path` in their order, each cut to its first `longest` tokens.
// Errors: ConfigError where the file cannot be read or holds no example; with line, field, got and
// expected for a line that is no such object, and for ids from outside of 0 to vocabulary_size - 1.
std::vector<Example> read_examples(const std::string& path, std::int64_t vocabulary_size,
                                   std::int64_t longest);

}  // namespace gradsync::models

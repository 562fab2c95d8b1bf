// Changes of a job that may save memory, each tried as a run of its own: where the command has the
// word {}, stand the flags of one of them.
#pragma once

#include <string>
#include <vector>

namespace gradsync::fit {

struct Lever {
  std::string name;
  std::vector<std::string> words;
};

// Reads "checkpointing=--gradient_checkpointing true"; a text without "=" is its own name.
// Errors: ConfigError where it is empty or a quote in it is not closed.
Lever read_lever(const std::string& text);

// Returns the command with these words in the place of each {}.
// Errors: ConfigError where it has no {}.
std::vector<std::string> with_words(const std::vector<std::string>& command,
                                    const std::vector<std::string>& words);

}  // namespace gradsync::fit

#include "harness/fit/levers.h"

#include <fmt/format.h>

#include <stdexcept>

#include "harness/base/errors.h"
#include "harness/base/words.h"

namespace gradsync::fit {
namespace {

constexpr const char* kPlace = "{}";

}  // namespace

Lever read_lever(const std::string& text) {
  const std::size_t equals = text.find('=');
  const bool is_named = equals != std::string::npos && text.find('-') > equals;
  Lever lever{text, {}};
  if (is_named) lever.name = text.substr(0, equals);
  try {
    lever.words = split_words(is_named ? text.substr(equals + 1) : text);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(fmt::format("--lever: got \"{}\", expected {}", text, error.what()));
  }
  if (lever.name.empty() || lever.words.empty()) {
    throw ConfigError(fmt::format(
        "--lever: got \"{}\", expected a name and flags, as in checkpointing=--checkpoint", text));
  }
  return lever;
}

std::vector<std::string> with_words(const std::vector<std::string>& command,
                                    const std::vector<std::string>& words) {
  std::vector<std::string> result;
  bool has_place = false;
  for (const std::string& word : command) {
    if (word != kPlace) {
      result.push_back(word);
      continue;
    }
    has_place = true;
    result.insert(result.end(), words.begin(), words.end());
  }
  if (has_place) return result;
  throw ConfigError(
      "--lever: got a COMMAND without the word {}, expected it where the flags are to stand");
}

}  // namespace gradsync::fit

#include "benchmarks/commands/gate_spelling.h"

#include <algorithm>

#include "harness/arms/gate_question.h"
#include "harness/base/nearest.h"

namespace gradsync::cli {
namespace {

using Words = std::vector<std::string>;

// Where `option` stands, as "--counts FILE" or "--counts=FILE".
Words::const_iterator find(const Words& words, const std::string& option) {
  return std::ranges::find_if(words, [&](const std::string& word) {
    return word == option || word.starts_with(option + "=");
  });
}

bool has(const Words& words, const std::string& option) {
  return find(words, option) != words.end();
}

// "": not given.
std::string value_of(const Words& words, const std::string& option) {
  const auto found = find(words, option);
  if (found == words.end()) return "";
  if (*found != option) return found->substr(option.size() + 1);
  return found + 1 == words.end() ? "" : *(found + 1);
}

// Whether it is an option of one of the questions that takes no value.
bool is_flag(const CommandPage& gate, const std::string& word) {
  return std::ranges::any_of(gate.commands, [&](const CommandPage& question) {
    return std::ranges::any_of(question.options, [&](const OptionPage& option) {
      return option.value.empty() && std::ranges::find(option.flags, word) != option.flags.end();
    });
  });
}

// Whether a word is no option and no option's value: PLAN.
bool has_plan(const CommandPage& gate, const Words& words) {
  bool is_value = false;
  for (const std::string& word : words) {
    if (!word.starts_with("-") && !is_value) return true;
    is_value =
        word.starts_with("--") && !is_flag(gate, word) && word.find('=') == std::string::npos;
  }
  return false;
}

std::string question_of(const CommandPage& gate, const Words& words) {
  if (has(words, "--counts") || has(words, "--update")) return "counts";
  if (has(words, "--selftest") || has(words, "--replay")) return "selftest";
  const bool is_of_commands = has(words, "--baseline") && !has_plan(gate, words) &&
                              !has(words, "--gates") &&
                              !arms::names_build(value_of(words, "--baseline"));
  return is_of_commands ? "commands" : "builds";
}

}  // namespace

std::optional<Words> respelled_gate(const CommandPage& gate, const Words& words) {
  if (words.size() < 2 || words[0] != gate.name || words[1] == "-h" || words[1] == "--help") {
    return std::nullopt;
  }
  std::vector<std::string> questions;
  for (const CommandPage& question : gate.commands) questions.push_back(own_name(question));
  // "cuonts" is a misspelt question and not a plan.
  if (!words[1].starts_with("-") && !nearest_names(words[1], questions).empty()) {
    return std::nullopt;
  }
  const Words given(words.begin() + 1, words.end());
  Words now = {"gate", question_of(gate, given)};
  if (now[1] == "counts" && has(given, "--counts")) now.push_back(value_of(given, "--counts"));
  for (auto word = given.begin(); word != given.end(); ++word) {
    if (*word == "--selftest" || word->starts_with("--counts=")) continue;
    if (*word == "--counts") {
      if (++word == given.end()) break;
      continue;
    }
    now.push_back(*word);
  }
  return now;
}

}  // namespace gradsync::cli

#include "benchmarks/commands/gate_spelling.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "harness/arms/gate_question.h"

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

bool is_flag(std::string_view word) {
  constexpr std::array kFlags = {"--force",    "--quiet", "--update",           "--counts-only",
                                 "--selftest", "--json",  "--every-micro-batch"};
  return std::ranges::find(kFlags, word) != kFlags.end();
}

// Whether a word is no option and no option's value: PLAN.
bool has_plan(const Words& words) {
  bool is_value = false;
  for (const std::string& word : words) {
    if (!word.starts_with("-") && !is_value) return true;
    is_value = word.starts_with("--") && !is_flag(word) && word.find('=') == std::string::npos;
  }
  return false;
}

std::string question_of(const Words& words) {
  if (has(words, "--counts") || has(words, "--update")) return "counts";
  if (has(words, "--selftest") || has(words, "--replay")) return "selftest";
  const bool is_of_commands = has(words, "--baseline") && !has_plan(words) &&
                              !has(words, "--gates") &&
                              !arms::names_build(value_of(words, "--baseline"));
  return is_of_commands ? "commands" : "builds";
}

}  // namespace

std::optional<Words> respelled_gate(const Words& words) {
  if (words.size() < 2 || words[0] != "gate") return std::nullopt;
  constexpr std::array kNow = {"counts", "commands", "builds", "selftest", "-h", "--help"};
  if (std::ranges::find(kNow, words[1]) != kNow.end()) return std::nullopt;
  const Words given(words.begin() + 1, words.end());
  Words now = {"gate", question_of(given)};
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

#include "benchmarks/manual/wrong_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "harness/base/nearest.h"

namespace gradsync::cli {
namespace {

using Words = std::vector<std::string>;

Words names_of(const std::vector<CommandPage>& commands) {
  Words names;
  for (const CommandPage& command : commands) names.push_back(own_name(command));
  return names;
}

Words flags_of(const CommandPage& page) {
  Words flags;
  for (const OptionPage& option : page.options)
    std::ranges::copy(option.flags, std::back_inserter(flags));
  return flags;
}

std::string full_name(const CommandPage& page) {
  return page.name.empty() ? "gradsync" : "gradsync " + page.name;
}

// The command that the first words name, and those behind them.
struct Call {
  const CommandPage* page;
  Words rest;
};

Call call_of(const CommandPage& program, const Words& words) {
  const CommandPage* page = &program;
  auto word = words.begin();
  for (; word != words.end(); ++word) {
    const auto named = std::ranges::find(
        page->commands, *word, [](const CommandPage& command) { return own_name(command); });
    if (named == page->commands.end()) break;
    page = &*named;
  }
  return {page, {word, words.end()}};
}

std::string hint(const std::string& got, const Words& names) {
  const std::string meant = did_you_mean(got, names);
  return meant.empty() ? "" : "; " + meant;
}

// "" where every option exists.
std::string unknown_option(const CommandPage& page, const Words& words) {
  const Words flags = flags_of(page);
  for (const std::string& word : words) {
    const std::string flag = word.substr(0, word.find('='));
    if (!flag.starts_with("--") || std::ranges::find(flags, flag) != flags.end()) continue;
    return fmt::format("{}: {} has no such option{}", flag, full_name(page), hint(flag, flags));
  }
  return "";
}

std::string about_commands(const CommandPage& page, const Words& words) {
  const Words names = names_of(page.commands);
  if (words.empty())
    return fmt::format("{}: which COMMAND? {}", full_name(page), one_of_names("", names));
  return fmt::format("{}: {} has no such command{}", words.front(), full_name(page),
                     hint(words.front(), names));
}

bool takes_a_job(const CommandPage& page) {
  return page.tail.find("-- COMMAND") != std::string::npos;
}

bool is_program(const std::string& word) {
  return word == "torchrun" || word == "python" || word == "python3" || word == "accelerate" ||
         word.ends_with(".py");
}

std::string about_call(const Call& call, const std::string& complaint) {
  const CommandPage& page = *call.page;
  const bool lacks_command =
      !page.commands.empty() && (call.rest.empty() || !call.rest.front().starts_with("-"));
  if (lacks_command) return about_commands(page, call.rest);
  if (takes_a_job(page) && std::ranges::any_of(call.rest, is_program)) {
    return fmt::format("a training command stands behind \"--\": {} -- torchrun train.py",
                       full_name(page));
  }
  const std::string unknown = unknown_option(page, call.rest);
  return unknown.empty() ? complaint : unknown;
}

}  // namespace

std::string wrong_call(const CommandPage& program, const Words& words,
                       const std::string& complaint) {
  const Call call = call_of(program, words);
  return fmt::format("{} (see {} --help)", about_call(call, complaint), full_name(*call.page));
}

}  // namespace gradsync::cli

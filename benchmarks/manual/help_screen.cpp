#include "benchmarks/manual/help_screen.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "benchmarks/manual/texts.h"
#include "harness/text/text_width.h"

namespace gradsync::cli {
namespace {

using text::wrapped;

constexpr std::size_t kIndent = 2;
constexpr std::size_t kNameColumn = 12;   // of commands
constexpr std::size_t kFlagsColumn = 24;  // of options

// `name` in a column of that width, `about` beside it, or below it where it is too long.
std::string help_entry(const std::string& name, const std::string& about, std::size_t column) {
  const std::size_t indent = kIndent + column;
  const std::string text = wrapped(about, indent, text::kTerminalWidth);
  const std::string head = std::string(kIndent, ' ') + name;
  if (text.empty()) return head + "\n";
  if (name.size() + 1 >= column) return head + "\n" + text;
  return text::pad_right(head, indent) + text.substr(indent);
}

std::string choices_text(const OptionPage& option) {
  return option.choices.empty() ? option.value : fmt::format("{}", fmt::join(option.choices, "|"));
}

std::string head_of(const OptionPage& option) {
  if (option.flags.empty()) return option.value + (option.takes_several ? "..." : "");
  std::string text = fmt::format("{}", fmt::join(option.flags, ", "));
  if (option.value.empty()) return text;
  text += " " + choices_text(option);
  return option.takes_several ? text + "..." : text;
}

std::string options_text(const char* title, const std::vector<OptionPage>& options) {
  if (options.empty()) return "";
  std::string text = fmt::format("\n{}\n", title);
  for (const OptionPage& option : options) {
    text += help_entry(head_of(option), option.about, kFlagsColumn);
  }
  return text;
}

std::string commands_text(const std::string& title, const std::vector<CommandPage>& commands) {
  std::string text = fmt::format("\n{}\n", title);
  for (const CommandPage& command : commands) {
    text += help_entry(own_name(command), command.about, kNameColumn);
  }
  return text;
}

std::string examples_text(const CommandPage& command) {
  std::string text;
  for (const Example& example : kExamples) {
    const std::string call = example.command;
    if (!call.starts_with("gradsync " + command.name)) continue;
    text += wrapped(call, kIndent, text::kTerminalWidth);
  }
  return text.empty() ? "" : "\nExample\n" + text;
}

}  // namespace

std::string help_screen(const CommandPage& program) {
  std::string text =
      wrapped(program.about, 0, text::kTerminalWidth) + "\nusage: " + usage_of(program) + "\n";
  for (const std::string& group : groups_of(program)) {
    std::vector<CommandPage> members;
    std::ranges::copy_if(program.commands, std::back_inserter(members),
                         [&](const CommandPage& command) { return command.group == group; });
    text += commands_text(group, members);
  }
  text += "\nExamples\n";
  for (const Example& example : kExamples) {
    if (example.is_on_first_screen) text += fmt::format("  {}\n", example.command);
  }
  return text + "\n" + kDoctorFirst + "\nEach command has its options: gradsync COMMAND --help\n";
}

std::string command_help(const CommandPage& command) {
  std::string text = wrapped("usage: " + usage_of(command), 0, text::kTerminalWidth);
  text += "\n" + wrapped(command.about, 0, text::kTerminalWidth);
  if (!command.commands.empty()) text += commands_text("Commands", command.commands);
  return text + options_text("Takes", command.positionals) +
         options_text("Options", command.options) + examples_text(command);
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
  const CommandPage page = page_of(*app);
  return app->get_parent() == nullptr ? help_screen(page) : command_help(page);
}

}  // namespace gradsync::cli

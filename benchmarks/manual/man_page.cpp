#include <fmt/format.h>
#include <fmt/ranges.h>

#include "benchmarks/manual/help_screen.h"
#include "benchmarks/manual/texts.h"

namespace gradsync::cli {
namespace {

// Returns the text with roff's special characters escaped.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return !out.empty() && (out.front() == '.' || out.front() == '\'') ? "\\&" + out : out;
}

std::string bold(const std::string& text) {
  return "\\fB" + escaped(text) + "\\fR";
}

std::string italic(const std::string& text) {
  return "\\fI" + escaped(text) + "\\fR";
}

std::string man_head_of(const OptionPage& option) {
  std::vector<std::string> flags;
  for (const std::string& flag : option.flags) flags.push_back(bold(flag));
  std::string text = fmt::format("{}", fmt::join(flags, ", "));
  if (option.value.empty()) return text;
  if (!text.empty()) text += " ";
  text += option.choices.empty() ? italic(option.value)
                                 : escaped(fmt::format("{}", fmt::join(option.choices, "|")));
  return option.takes_several ? text + " ..." : text;
}

std::string man_entry(const std::string& head, const std::string& about) {
  return fmt::format(".TP\n{}\n{}\n", head, escaped(about));
}

std::string command_section(const CommandPage& page) {
  std::string text = fmt::format(".SS \"{}\"\n{}\n", escaped(usage_of(page)), escaped(page.about));
  for (const auto* options : {&page.positionals, &page.options}) {
    for (const OptionPage& option : *options) text += man_entry(man_head_of(option), option.about);
  }
  return text;
}

}  // namespace

std::string man_page(const CommandPage& program, const std::string& version,
                     const std::string& date) {
  std::string text = fmt::format(
      ".TH GRADSYNC 1 {} \"gradsync {}\" \"User Commands\"\n"
      ".SH NAME\ngradsync \\- {}\n"
      ".SH SYNOPSIS\n{} {}\n"
      ".SH DESCRIPTION\n{}\n",
      date, version, escaped(program.about), bold("gradsync"),
      escaped(usage_of(program).substr(std::string("gradsync ").size())), escaped(kDoctorFirst));
  for (const OptionPage& option : program.options)
    text += man_entry(man_head_of(option), option.about);
  text += ".SH COMMANDS\n";
  for (const CommandPage* page : all_pages(program)) {
    if (page != &program && page->commands.empty()) text += command_section(*page);
  }
  text += ".SH \"EXIT STATUS\"\n";
  for (const ExitMeaning& exit : kExitMeanings) {
    text += man_entry(bold(std::to_string(exit.status)), exit.meaning);
  }
  text += ".SH EXAMPLES\n";
  for (const Example& example : kExamples) text += man_entry(bold(example.command), example.about);
  return text;
}

}  // namespace gradsync::cli

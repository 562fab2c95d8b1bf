// Several words written in one text: a command, or a list.
#pragma once

#include <string>
#include <vector>

namespace gradsync {

// Returns the words of `text` as a shell divides them: at blanks that are neither quoted ('...',
// "...") nor behind a backslash; a backslash and the end of its line are nothing. Nothing is
// expanded: no variables, no wildcards, no commands.
// Errors: std::invalid_argument, saying what was expected, where a quote is not closed or nothing
// follows a backslash.
std::vector<std::string> split_words(const std::string& text);

// Returns the text in a shell's single quotes.
std::string in_quotes(const std::string& text);

// Returns a text that a shell, and split_words, divides into these words: quoted where it must be.
std::string joined_words(const std::vector<std::string>& words);

// Returns the pieces of `text` between commas, empty ones too: one more than it has commas.
std::vector<std::string> split_at_commas(const std::string& text);

}  // namespace gradsync

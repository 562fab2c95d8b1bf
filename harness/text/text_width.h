// How many columns a text takes on a terminal, which is not how many bytes it has.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gradsync::text {

inline constexpr std::size_t kTerminalWidth = 80;  // columns that a page may take

// Returns the columns of UTF-8 `text`: one per character, two for East Asian wide ones, none for
// combining marks. "±" and "×" are one column and two bytes.
std::size_t display_width(std::string_view text);

// Returns `text` with spaces added, on its right or its left, up to `width` columns.
std::string pad_right(std::string_view text, std::size_t width);
std::string pad_left(std::string_view text, std::size_t width);

// Returns `text` cut to `width` columns, never inside a character; a cut text ends in "…".
std::string truncate(std::string_view text, std::size_t width);

// Returns the words of `text` in lines of at most `width` columns where they allow it, each after
// `indent` blanks and ended by a newline. "1 %" is one word.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t width);

// Returns `text`, which a stranger may have written, with a question mark for each control
// character.
std::string printable(std::string_view text);

}  // namespace gradsync::text

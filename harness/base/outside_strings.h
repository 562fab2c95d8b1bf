// Walks a text of JSON before it is parsed: for whoever counts its brackets.
#pragma once

#include <cstddef>
#include <string_view>

namespace gradsync {

// Calls `see(character, place)` for each character of `text` that is not inside of a string, until
// it returns false. Of a text that is no JSON any character may count as inside of one.
template <typename See>
void each_outside_strings(std::string_view text, See see) {
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (!see(c, i)) return;
  }
}

}  // namespace gradsync

// Text of files that strangers wrote, before it goes to a terminal.
#pragma once

#include <string>
#include <string_view>

namespace gradsync::watch {

// Returns `text` with a question mark for each control character.
inline std::string printable(std::string_view text) {
  constexpr char kDelete = 0x7f;
  std::string shown(text);
  for (char& c : shown) {
    if ((c >= 0 && c < ' ') || c == kDelete) c = '?';
  }
  return shown;
}

}  // namespace gradsync::watch

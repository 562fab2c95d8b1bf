#include "harness/text/text_width.h"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <vector>

namespace gradsync::text {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
};

// Malformed bytes count as one character each, so that no text can make us read past its end.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  if (length == 1 || length > text.size()) return {lead, 1};
  std::uint32_t code = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) code = code << 6U | (byte(i) & 0x3FU);
  return {code, length};
}

std::size_t columns_of(std::uint32_t code) {
  const auto within = [code](std::uint32_t lo, std::uint32_t hi) {
    return lo <= code && code <= hi;
  };
  if (within(0x0300, 0x036F) || within(0x200B, 0x200F) || code == 0xFE0F) return 0;
  const bool wide = within(0x1100, 0x115F) || within(0x2E80, 0xA4CF) || within(0xAC00, 0xD7A3) ||
                    within(0xF900, 0xFAFF) || within(0xFE30, 0xFE6F) || within(0xFF00, 0xFF60) ||
                    within(0x1F300, 0x1FAFF);
  return wide ? 2 : 1;
}

// The words of `text`; "1 %" is one.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) {
    if (word.front() == '%' && !words.empty()) {
      words.back().append(" ").append(word);
    } else {
      words.push_back(word);
    }
  }
  return words;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    width += columns_of(character.code);
    text.remove_prefix(character.bytes);
  }
  return width;
}

std::string pad_right(std::string_view text, std::size_t width) {
  return std::string(text) + std::string(width - std::min(width, display_width(text)), ' ');
}

std::string pad_left(std::string_view text, std::size_t width) {
  return std::string(width - std::min(width, display_width(text)), ' ') + std::string(text);
}

std::string truncate(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width == 0) return "";
  std::string kept;
  std::size_t used = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    if (used + columns_of(character.code) > width - 1) break;
    used += columns_of(character.code);
    kept += text.substr(0, character.bytes);
    text.remove_prefix(character.bytes);
  }
  return kept + "…";
}

std::string wrapped(const std::string& text, std::size_t indent, std::size_t width) {
  const std::string blanks(indent, ' ');
  std::string out;
  std::string line;
  const auto end_line = [&] {
    if (line.empty()) return;
    out.append(blanks).append(line).append("\n");
    line.clear();
  };
  for (const std::string& word : words_of(text)) {
    if (indent + display_width(line) + 1 + display_width(word) > width) end_line();
    if (!line.empty()) line += ' ';
    line += word;
  }
  end_line();
  return out;
}

std::string printable(std::string_view text) {
  constexpr char kDelete = 0x7f;
  std::string shown(text);
  for (char& c : shown) {
    if ((c >= 0 && c < ' ') || c == kDelete) c = '?';
  }
  return shown;
}

}  // namespace gradsync::text

#include "harness/base/words.h"

#include <cstddef>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace gradsync {
namespace {

constexpr std::string_view kBlanks = " \t\n";
constexpr std::string_view kEscapedInQuotes = "\"\\$`";  // there a backslash is one before others
// What means nothing to a shell, wherever it stands in a word.
constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-";

class Splitter {
 public:
  explicit Splitter(const std::string& text) : text_(text) {}

  std::vector<std::string> split() {
    while (at_ < text_.size()) take(text_[at_++]);
    end_word();
    return std::move(words_);
  }

 private:
  void take(char c) {
    if (goes_on(c)) return;
    if (kBlanks.find(c) != std::string_view::npos) return end_word();
    is_word_ = true;
    if (c == '\'') return take_single_quoted();
    if (c == '"') return take_double_quoted();
    word_ += c == '\\' ? next("a character after the last backslash") : c;
  }

  void take_single_quoted() {
    for (char c = next("a closing '"); c != '\''; c = next("a closing '")) word_ += c;
  }

  void take_double_quoted() {
    for (char c = next("a closing \""); c != '"'; c = next("a closing \"")) {
      if (goes_on(c)) continue;
      const bool escapes = c == '\\' && at_ < text_.size() &&
                           kEscapedInQuotes.find(text_[at_]) != std::string_view::npos;
      word_ += escapes ? text_[at_++] : c;
    }
  }

  // Passes over a backslash and the end of its line: for a shell the line goes on.
  bool goes_on(char c) {
    const bool goes_on = c == '\\' && at_ < text_.size() && text_[at_] == '\n';
    if (goes_on) ++at_;
    return goes_on;
  }

  char next(const char* expected) {
    if (at_ == text_.size()) throw std::invalid_argument(expected);
    return text_[at_++];
  }

  void end_word() {
    if (is_word_) words_.push_back(std::move(word_));
    word_.clear();
    is_word_ = false;
  }

  const std::string& text_;
  std::size_t at_ = 0;
  std::string word_;
  bool is_word_ = false;  // an empty one in quotes is one, too
  std::vector<std::string> words_;
};

}  // namespace

std::vector<std::string> split_words(const std::string& text) {
  return Splitter(text).split();
}

std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string joined_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += " ";
    const bool is_plain = !word.empty() && word.find_first_not_of(kPlain) == std::string::npos;
    text += is_plain ? word : in_quotes(word);
  }
  return text;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> pieces;
  std::size_t start = 0;
  for (auto comma = text.find(','); comma != std::string::npos; comma = text.find(',', start)) {
    pieces.push_back(text.substr(start, comma - start));
    start = comma + 1;
  }
  pieces.push_back(text.substr(start));
  return pieces;
}

}  // namespace gradsync

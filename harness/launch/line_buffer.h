// Cuts a byte stream into lines. Bytes are looked at once, however the stream arrives in pieces:
// a timeline of a megabyte comes as hundreds of reads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gradsync::launch {

class LineBuffer {
 public:
  void append(std::string_view bytes) { buffer_.append(bytes); }

  // Returns the next complete line without its end, or nothing until more arrives.
  std::optional<std::string> next() {
    const std::size_t end = buffer_.find('\n', searched_);
    if (end == std::string::npos) {
      buffer_.erase(0, start_);
      start_ = 0;
      searched_ = buffer_.size();
      return std::nullopt;
    }
    std::string line = buffer_.substr(start_, end - start_);
    start_ = searched_ = end + 1;
    return line;
  }

  // Bytes that are kept: complete lines that were not asked for, and the one that is incomplete.
  std::size_t size() const { return buffer_.size() - start_; }

 private:
  std::string buffer_;
  std::size_t start_ = 0;     // of the next line
  std::size_t searched_ = 0;  // no line end before this
};

}  // namespace gradsync::launch

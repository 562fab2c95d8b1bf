#include "harness/launch/json_lines.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"

namespace gradsync::launch {
namespace {

// Null where the line is no JSON, or is nested so deep that walking it could exhaust the stack.
nlohmann::json parse_line(const std::string& line) {
  try {
    return parse_json(line);
  } catch (const nlohmann::json::exception&) {
    return nullptr;
  }
}

}  // namespace

void JsonLines::send_line(const std::string& line) {
  if (!is_open()) return;
  outgoing_ += line;
  outgoing_ += '\n';
  flush();
}

void JsonLines::flush() {
  while (wants_to_write()) {
    const ssize_t count = ::send(socket_.get(), outgoing_.data() + sent_, outgoing_.size() - sent_,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) break;
    sent_ += static_cast<std::size_t>(count);
  }
  outgoing_.clear();
  sent_ = 0;
}

std::vector<nlohmann::json> JsonLines::read() {
  std::array<char, 65536> bytes;
  while (is_open()) {
    const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) {
      socket_.reset();
    } else {
      incoming_.append({bytes.data(), static_cast<std::size_t>(count)});
    }
    if (incoming_.size() > most_bytes_) {
      socket_.reset();
      return {};
    }
  }
  std::vector<nlohmann::json> messages;
  while (const auto line = incoming_.next()) {
    messages.push_back(parse_line(*line));
    if (!messages.back().is_object()) {
      throw InternalError(
          fmt::format("{} wrote a line that is no JSON object: {}", peer_, line->substr(0, 200)));
    }
  }
  return messages;
}

std::vector<nlohmann::json> JsonLines::read_or_close() {
  try {
    return read();
  } catch (const InternalError&) {
    close();
    return {};
  }
}

}  // namespace gradsync::launch

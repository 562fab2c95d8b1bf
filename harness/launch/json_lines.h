// A connected stream socket that carries one JSON object per line, both ways, and never blocks.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/launch/line_buffer.h"
#include "harness/launch/unique_fd.h"

namespace gradsync::launch {

class JsonLines {
 public:
  JsonLines() = default;
  // `peer` names the other end in messages. `most_bytes`: of what it may write until it is read;
  // the connection of one that writes more is closed.
  JsonLines(UniqueFd socket, std::string peer,
            std::size_t most_bytes = std::numeric_limits<std::size_t>::max())
      : socket_(std::move(socket)), peer_(std::move(peer)), most_bytes_(most_bytes) {}
  void allow_any_length() { most_bytes_ = std::numeric_limits<std::size_t>::max(); }

  // What the other end does not take now goes out with a later flush(). A peer that is gone is no
  // error here: read() closes the connection.
  void send(const nlohmann::json& message) { send_line(message.dump()); }
  void send_line(const std::string& line);
  void flush();
  bool wants_to_write() const { return is_open() && sent_ < outgoing_.size(); }

  // Returns the messages that have arrived; at the other end's close, closes this one.
  // Errors: InternalError where a complete line is no JSON object, or is nested deeper than
  // kDeepestJson.
  std::vector<nlohmann::json> read();

  // The same, but the connection of one that wrote what is no message is closed instead.
  std::vector<nlohmann::json> read_or_close();

  bool is_open() const { return static_cast<bool>(socket_); }
  int fd() const { return socket_.get(); }
  void close() { socket_.reset(); }

 private:
  UniqueFd socket_;
  std::string peer_;
  std::size_t most_bytes_ = std::numeric_limits<std::size_t>::max();
  LineBuffer incoming_;
  std::string outgoing_;
  std::size_t sent_ = 0;  // of outgoing_
};

}  // namespace gradsync::launch

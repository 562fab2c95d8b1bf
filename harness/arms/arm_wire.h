// The arm's end of its talk with a gate: standard input and standard output as lines of JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "harness/launch/line_buffer.h"
#include "harness/launch/unique_fd.h"

namespace gradsync::arms {

// The reader of the answers is gone.
class ReaderGone : public std::runtime_error {
 public:
  ReaderGone() : std::runtime_error("the reader of the answers is gone") {}
};

// One per process, used by one thread.
class ArmWire {
 public:
  // Reserves standard output: what any other code writes there goes to standard error.
  ArmWire();

  // Blocks for the next request; nothing: the input has ended.
  // Errors: run::Interrupted on a signal; ConfigError where the line is no JSON.
  std::optional<nlohmann::json> next();

  // Blocks while the reader is behind. Errors: ReaderGone; run::Interrupted on a signal.
  void send(const nlohmann::json& message);

  // Says that a request is being worked on, if nothing was sent for kBusyS. Errors: as send().
  void beat();

 private:
  // Takes what there is to read within a second. Returns false at the end of the input.
  bool read();

  launch::UniqueFd output_;
  launch::LineBuffer lines_;
  std::int64_t quiet_since_ns_ = 0;
};

}  // namespace gradsync::arms

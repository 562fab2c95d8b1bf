#include "harness/paper/standins/nccl/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "harness/paper/standins/nccl/failure.h"

namespace gradsync::paper::nccl {
namespace {

[[noreturn]] void refuse(const std::string& variable, const std::string& why) {
  const std::string sentence = variable + ": " + why;
  std::fprintf(stderr, "NCCL of paper: %s\n", sentence.c_str());
  throw Failure(ncclInvalidArgument, sentence);
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

template <typename Number>
Number number(const std::string& variable, const std::string& text, Number at_least) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < at_least) {
    refuse(variable, "'" + text + "' is not a number from " + std::to_string(at_least) + " on");
  }
  return value;
}

std::vector<std::string> pieces(const std::string& text, char separator) {
  std::vector<std::string> found;
  std::istringstream stream(text);
  for (std::string piece; std::getline(stream, piece, separator);) found.push_back(piece);
  return found;
}

Injected injected(const std::string& text) {
  const std::string name = "GRADSYNC_PAPER_NCCL";
  const std::size_t colon = text.find(':');
  Injected error{text.substr(0, colon)};
  if (error.name == "duplicate_gpu" && colon == std::string::npos) return error;
  if (error.name != "never" && error.name != "async_error") {
    refuse(name, "'" + text +
                     "' is none of never:rank=R,call=N, async_error:rank=R,call=N, duplicate_gpu");
  }
  for (const std::string& field : colon == std::string::npos
                                      ? std::vector<std::string>{}
                                      : pieces(text.substr(colon + 1), ',')) {
    if (field.starts_with("rank=")) {
      error.rank = number(name, field.substr(5), 0);
    } else if (field.starts_with("call=")) {
      error.call = number(name, field.substr(5), std::uint64_t{1});
    } else {
      refuse(name, error.name + " has no field '" + field + "'; it takes rank=R,call=N");
    }
  }
  if (error.rank < 0 || error.call == 0) refuse(name, error.name + " needs rank=R,call=N");
  return error;
}

}  // namespace

bool Settings::injects(const std::string& name) const {
  return std::any_of(injected.begin(), injected.end(),
                     [&](const Injected& error) { return error.name == name; });
}

bool Settings::injects(const std::string& name, int rank, std::uint64_t call) const {
  return std::any_of(injected.begin(), injected.end(), [&](const Injected& error) {
    return error.name == name && error.rank == rank && error.call == call;
  });
}

Settings read_settings() {
  Settings settings;
  if (const auto text = variable("GRADSYNC_PAPER_DEADLINE_S"); !text.empty()) {
    settings.deadline =
        std::chrono::duration<double>(number("GRADSYNC_PAPER_DEADLINE_S", text, 0.001));
  }
  const auto world = variable("GRADSYNC_PAPER_WORLD"), real = variable("GRADSYNC_PAPER_REAL");
  if (world.empty() != real.empty()) {
    refuse("GRADSYNC_PAPER_WORLD", "it goes with GRADSYNC_PAPER_REAL; only one of them is set");
  }
  if (!world.empty()) {
    settings.world = number("GRADSYNC_PAPER_WORLD", world, 1);
    settings.real = number("GRADSYNC_PAPER_REAL", real, 1);
  }
  for (const std::string& text : pieces(variable("GRADSYNC_PAPER_NCCL"), ';')) {
    settings.injected.push_back(injected(text));
  }
  return settings;
}

}  // namespace gradsync::paper::nccl

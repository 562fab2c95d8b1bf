#include "harness/session/rank_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "harness/base/build_info.h"
#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "harness/launch/program_output.h"
#include "harness/session/paths.h"
#include "models/find_model.h"

namespace gradsync::session {
namespace {

constexpr const char* kName = "gradsync-rank";

std::string rank_program() {
  if (const char* named = std::getenv("GRADSYNC_RANK")) return named;
  return this_program().parent_path() / kName;
}

bool has_rank_program() {
  return ::access(rank_program().c_str(), X_OK) == 0;
}

// Returns what it prints. Errors: EnvironmentError, with its own words where it fails.
std::string ask(const std::vector<std::string>& words, double timeout_s) {
  std::vector<std::string> command{rank_command().front()};
  command.insert(command.end(), words.begin(), words.end());
  const auto output = launch::output_of(command, timeout_s, launch::Errors::Ours);
  if (output.status == 0) return output.text;
  if (output.status == static_cast<int>(ExitStatus::Unfit)) throw EnvironmentError(output.text);
  throw EnvironmentError(
      fmt::format("{} {} exited with status {} and {}", command.front(), words.front(),
                  output.status, output.text.empty() ? "said nothing" : "said: " + output.text),
      "run it by hand to see more");
}

coordinate::RankAbout read_about(const std::string& text, const std::string& file) {
  try {
    return coordinate::rank_about_from_json(parse_json(text), file);
  } catch (const std::exception& error) {
    throw EnvironmentError(fmt::format("{} is no rank program: {}", file, error.what()),
                           "name the right one by GRADSYNC_RANK");
  }
}

coordinate::RankAbout ask_about() {
  constexpr double kTimeoutS = 60;
  const std::string file = rank_command().front() + " about";
  const coordinate::RankAbout about = read_about(ask({"about"}, kTimeoutS), file);
  if (about.commit == build_info().commit) return about;
  throw EnvironmentError(fmt::format("{} is of commit {}, this program of {}",
                                     rank_command().front(), about.commit, build_info().commit),
                         "build both again, or name the right one by GRADSYNC_RANK");
}

std::vector<std::string> store_words(const char* command, const launch::TaskPlace& place,
                                     double timeout_s) {
  return {command, place.master_address, std::to_string(place.master_port),
          std::to_string(timeout_s)};
}

// A store that does not answer says so itself, within the timeout.
constexpr double kBeyondItsOwnS = 30;

}  // namespace

std::vector<std::string> rank_command() {
  if (has_rank_program()) return {rank_program(), "rank"};
  throw EnvironmentError::seen_by_doctor(
      fmt::format("no rank can run: there is no program {}", rank_program()),
      "build it where LibTorch is, or name one by GRADSYNC_RANK; watch, report, predict, gate of "
      "jobs and doctor work without");
}

const coordinate::RankAbout& about_ranks() {
  static const coordinate::RankAbout about = ask_about();
  return about;
}

std::vector<models::ModelDescription> known_models() {
  if (has_rank_program()) return about_ranks().models;
  std::vector<models::ModelDescription> models;
  for (const models::SuiteModel& model : models::suite()) models.push_back(describe(model));
  return models;
}

models::ModelDescription find_model(const std::string& name) {
  if (models::is_profile(name)) return describe(models::paced_by_file(name));
  if (const auto* model = entry_named(models::suite(), name)) return describe(*model);
  return models::find_listed_model(known_models(), name);
}

std::string get_from_agent_store(const launch::TaskPlace& place, double timeout_s,
                                 const std::string& key) {
  auto words = store_words("store-get", place, timeout_s);
  words.push_back(key);
  return ask(words, timeout_s + kBeyondItsOwnS);
}

void set_in_agent_store(const launch::TaskPlace& place, double timeout_s, const std::string& key,
                        const std::string& value) {
  auto words = store_words("store-set", place, timeout_s);
  words.push_back(key);
  words.push_back(value);
  ask(words, timeout_s + kBeyondItsOwnS);
}

}  // namespace gradsync::session

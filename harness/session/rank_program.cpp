#include "harness/session/rank_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "harness/base/build_info.h"
#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "harness/base/program_files.h"
#include "harness/launch/program_output.h"
#include "harness/watch/inject/job_torch.h"
#include "models/find_model.h"

namespace gradsync::session {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* kName = "gradsync-rank";
constexpr const char* kWorksWithout =
    "watch, report, predict, gate of jobs and doctor work without";

struct RankProgram {
  std::string path;
  std::string torch_version = build_info().torch_version;
  std::string libraries = "";  // the folder of its torch's; "": it finds them itself
  std::string why_not = "";    // what is missing, and the remedy, where there is none
  std::string remedy = "";
};

bool can_run(const std::string& program) {
  return ::access(program.c_str(), X_OK) == 0;
}

RankProgram of_file(const std::string& path) {
  RankProgram program{.path = path};
  if (can_run(path)) return program;
  program.why_not = "there is no program " + path;
  program.remedy = "build it where LibTorch is, or name one by GRADSYNC_RANK";
  return program;
}

// "2.11, 2.12": of the torches that came with this program.
std::string shipped_minors() {
  const std::string prefix = std::string(kName) + "-";
  Words minors;
  for (const auto& entry : fs::directory_iterator(this_program().parent_path())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix)) minors.push_back(name.substr(prefix.size()));
  }
  if (minors.empty()) return "none";
  std::ranges::sort(minors);
  return fmt::format("{}", fmt::join(minors, ", "));
}

RankProgram shipped_for(const watch::JobTorch& torch) {
  RankProgram program{
      .path = beside_this_program(fmt::format("{}-{}", kName, watch::minor_of(torch))),
      .torch_version = torch.version,
      .libraries = torch.folder + "/lib"};
  if (can_run(program.path)) return program;
  program.why_not =
      fmt::format("this package has no rank program for the torch {} in {}; it has those for {}",
                  torch.version, torch.folder, shipped_minors());
  program.remedy = "install one of these, or build one in a checkout and name it by GRADSYNC_RANK";
  return program;
}

RankProgram shipped_for_active_torch() {
  const char* named = std::getenv("GRADSYNC_PYTHON");
  const std::string python = named != nullptr && *named != '\0' ? named : "python3";
  try {
    return shipped_for(watch::find_job_torch({}, python));
  } catch (const EnvironmentError& error) {
    RankProgram none;
    none.why_not = error.problem();
    none.remedy = "install gradsync[torch], or name a Python that has it by GRADSYNC_PYTHON";
    return none;
  }
}

RankProgram find_rank_program() {
  if (const char* named = std::getenv("GRADSYNC_RANK")) return of_file(named);
  const std::string beside = beside_this_program(kName);
  return can_run(beside) || !is_installed() ? of_file(beside) : shipped_for_active_torch();
}

const RankProgram& rank_program() {
  static const RankProgram program = find_rank_program();
  return program;
}

bool has_rank_program() {
  return rank_program().why_not.empty();
}

// The environment is changed for it alone: what else is started has libraries of its own.
Words command_of(const RankProgram& program) {
  if (program.libraries.empty()) return {program.path};
  const char* others = std::getenv("LD_LIBRARY_PATH");
  return {"/usr/bin/env",
          fmt::format("LD_LIBRARY_PATH={}{}{}", program.libraries, others == nullptr ? "" : ":",
                      others == nullptr ? "" : others),
          program.path};
}

const RankProgram& existing_rank_program() {
  if (has_rank_program()) return rank_program();
  throw EnvironmentError::seen_by_doctor(
      fmt::format("no rank can run: {}", rank_program().why_not),
      fmt::format("{}; {}", rank_program().remedy, kWorksWithout));
}

// Returns what it prints. Errors: EnvironmentError, with its own words where it fails.
std::string ask(const std::vector<std::string>& words, double timeout_s) {
  const RankProgram& program = existing_rank_program();
  Words command = command_of(program);
  command.insert(command.end(), words.begin(), words.end());
  const auto output = launch::output_of(command, timeout_s, launch::Errors::Ours);
  if (output.status == 0) return output.text;
  if (output.status == static_cast<int>(ExitStatus::Unfit)) throw EnvironmentError(output.text);
  throw EnvironmentError(
      fmt::format("{} {} exited with status {} and {}", program.path, words.front(), output.status,
                  output.text.empty() ? "said nothing" : "said: " + output.text),
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
  const std::string& path = existing_rank_program().path;
  coordinate::RankAbout about = read_about(ask({"about"}, kTimeoutS), path + " about");
  if (!rank_program().libraries.empty()) about.torch = rank_program().torch_version;
  if (about.commit == build_info().commit) return about;
  throw EnvironmentError(fmt::format("{} is of commit {}, this program of {}", path, about.commit,
                                     build_info().commit),
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
  Words command = command_of(existing_rank_program());
  command.emplace_back("rank");
  return command;
}

const coordinate::RankAbout& about_ranks() {
  static const coordinate::RankAbout about = ask_about();
  return about;
}

std::string torch_of_ranks() {
  return has_rank_program() ? about_ranks().torch : build_info().torch_version;
}

std::vector<models::ModelDescription> known_models() {
  if (has_rank_program()) return about_ranks().models;
  return {models::suite().begin(), models::suite().end()};
}

models::ModelDescription find_model(const std::string& name) {
  if (models::is_profile(name)) return models::paced_by_file(name);
  if (const auto* model = entry_named(models::suite(), name)) return *model;
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

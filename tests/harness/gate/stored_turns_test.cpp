// The figures that are published of the gate follow from the turns that are stored beside them.
//
// Each folder of results/gate/ has stored turns and the error rates that came of them: the share of
// every gate, of which some are replayed here, and the rates, which follow from the shares. After
// an intended change of the decision GRADSYNC_ACCEPT_GOLDEN=1 writes the error rates anew: read the
// difference before you commit it, and draw the curve again.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "harness/base/json_fields.h"
#include "harness/gate/error_rates.h"
#include "harness/gate/settings.h"
#include "harness/gate/traces.h"
#include "harness/stats/error_rates.h"
#include "harness/stats/sample.h"
#include "tests/paths.h"

namespace gradsync::gate {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kFolder = test::path_of("source") + "/results/gate";

// What may lie beside stored turns.
bool is_known(const fs::path& file) {
  static const std::set<std::string> names{"README.md", kErrorRatesFile, "self_test.json",
                                           "power_curve.png", "power_curve.svg"};
  const std::string name = file.filename().string();
  return names.contains(name) || name.ends_with(kTurnsSuffix);
}

std::vector<fs::path> folders_of_turns() {
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder)) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// Names the first place where the two differ by more than rounding; "" where there is none.
std::string difference(const json& a, const json& b, const std::string& place) {
  if (a.is_number() && b.is_number()) {
    const double scale = std::max(1.0, std::abs(a.get<double>()));
    if (std::abs(a.get<double>() - b.get<double>()) <= 1e-9 * scale) return "";
  } else if (a.is_structured() && a.type() == b.type() && a.size() == b.size()) {
    for (const auto& [key, value] : a.items()) {
      if (a.is_object() && !b.contains(key)) return place + "/" + key + ": only in one";
      const json& other = a.is_object() ? b.at(key) : b.at(std::stoul(key));
      std::string inside = difference(value, other, place + "/" + key);
      if (!inside.empty()) return inside;
    }
    return "";
  } else if (a == b) {
    return "";
  }
  return fmt::format("{}: {} and {}", place, a.dump(), b.dump());
}

TEST(StoredTurns, NothingElseLiesThere) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kFolder)) {
    const bool is_at_top = entry.path().parent_path() == kFolder;
    if (entry.is_directory()) {
      EXPECT_TRUE(is_at_top) << entry.path();
    } else if (is_at_top) {
      EXPECT_THAT(entry.path().filename(), testing::AnyOf("README.md", "campaign.jsonl"))
          << "turns lie in a folder of their own";
    } else {
      EXPECT_TRUE(is_known(entry.path())) << entry.path();
    }
  }
}

// Gates of each pool that are replayed here; more would take minutes.
constexpr std::size_t kReplayedGates = 2;

// The figures of all gates whose shares are stored, and of those that are replayed.
void expect_rate_of_shares(const json& stored, const json& replayed, const std::string& place) {
  const auto shares = stored.at("shares").get<std::vector<double>>();
  const auto first = replayed.at("shares").get<std::vector<double>>();
  ASSERT_GE(shares.size(), first.size()) << place;
  const auto same = [](double a, double b) { return std::abs(a - b) <= 1e-9; };
  EXPECT_TRUE(std::equal(first.begin(), first.end(), shares.begin(), same)) << place;
  if (shares.empty()) return;
  const stats::Interval interval = stats::share_interval(shares);
  EXPECT_EQ(difference(stored.at("rate"), stats::mean(shares), place), "");
  EXPECT_EQ(difference(stored.at("ci95"), {interval.lo, interval.hi}, place), "");
}

// Every rate anywhere in the two, at the same places.
void expect_rates(const json& stored, const json& replayed, const std::string& place) {
  if (stored.is_object() && stored.contains("shares")) {
    expect_rate_of_shares(stored, replayed, place);
    return;
  }
  if (!stored.is_structured()) return;
  ASSERT_EQ(stored.size(), replayed.size()) << place;
  for (const auto& [key, value] : stored.items()) {
    const json& other = stored.is_object() ? replayed.at(key) : replayed.at(std::stoul(key));
    expect_rates(value, other, place + "/" + key);
  }
}

TEST(StoredTurns, GiveTheFiguresBesideThem) {
  const std::vector<fs::path> folders = folders_of_turns();
  if (folders.empty()) GTEST_SKIP() << "no turns are stored in results/gate";
  const bool writes = std::getenv("GRADSYNC_ACCEPT_GOLDEN") != nullptr;
  for (const fs::path& folder : folders) {
    const ReplayDepth depth = writes ? ReplayDepth{} : ReplayDepth{.gates = kReplayedGates};
    const json replayed = to_json(replay_folder(folder.string(), Settings{}, depth));
    const fs::path file = folder / kErrorRatesFile;
    if (writes) std::ofstream(file) << replayed.dump(1) << "\n";
    const json stored = read_json_file(file.string());
    EXPECT_EQ(difference(stored.at("settings"), replayed.at("settings"), "settings"), "") << file;
    EXPECT_EQ(difference(stored.at("control"), replayed.at("control"), "control"), "") << file;
    expect_rates(stored.at("replays"), replayed.at("replays"), file.string());
  }
}

TEST(StoredTurns, AreEnoughForAGate) {
  for (const fs::path& folder : folders_of_turns()) {
    const std::vector<StoredFamily> families = read_families(folder.string());
    for (const GatePool& pool : gate_pools(families, fitted_to(families, Settings{}))) {
      EXPECT_GE(pool.gates.size(), 1U) << folder << ", extra work " << pool.extra_work;
    }
  }
}

TEST(Difference, IsFoundWhereThereIsOne) {
  const json a = {{"count", 1}, {"ci95", {0.1, 0.2}}, {"of", nullptr}};
  EXPECT_EQ(difference(a, a, ""), "");
  json b = a;
  b["ci95"][1] = 0.2 + 1e-13;
  EXPECT_EQ(difference(a, b, ""), "");
  b["ci95"][1] = 0.21;
  EXPECT_EQ(difference(a, b, ""), "/ci95/1: 0.2 and 0.21");
  b = a;
  b["of"] = 2;
  EXPECT_EQ(difference(a, b, ""), "/of: null and 2");
  b = {{"count", 1}, {"ci95", {0.1, 0.2}}, {"off", nullptr}};
  EXPECT_EQ(difference(a, b, ""), "/of: only in one");
  EXPECT_EQ(difference({1, 2}, {1}, ""), ": [1,2] and [1]");
}

}  // namespace
}  // namespace gradsync::gate

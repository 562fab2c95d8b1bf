// Covers: examine_host.cpp.
#include "harness/launch/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace gradsync::launch {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Severity = Finding::Severity;

json good_host() {
  return {{"cpus", 8},
          {"governor", "performance"},
          {"load_1min", 0.3},
          {"steal_share", 0.0},
          {"memory_available_bytes", 16e9},
          {"swap_used_bytes", 0},
          {"on_battery", false},
          {"other_gradsync", json::array()},
          {"tools", {{"ip", "/usr/sbin/ip"}, {"tc", "/usr/sbin/tc"}}},
          {"namespaces", {{"available", true}, {"reason", nullptr}}},
          {"link_shaping", {{"available", true}, {"reason", nullptr}}}};
}

std::vector<Finding> bad_ones(const json& host) {
  std::vector<Finding> findings = examine_host(host);
  std::erase_if(findings, [](const Finding& f) { return f.severity == Severity::Ok; });
  return findings;
}

struct Spoiler {
  const char* field;
  json value;
  Severity severity;
  const char* words;
};

TEST(ExamineHost, FindsNothingWrongWithAGoodMachine) {
  EXPECT_TRUE(bad_ones(good_host()).empty());
  EXPECT_GE(examine_host(good_host()).size(), 10U);
}

TEST(ExamineHost, NamesEachSpoilerAlone) {
  const std::vector<Spoiler> spoilers{
      {"governor", "powersave", Severity::Warn, "powersave"},
      {"load_1min", 4.1, Severity::Warn, "load average 4.10"},
      {"steal_share", 0.03, Severity::Warn, "3.0 %"},
      {"memory_available_bytes", 1e9, Severity::Warn, "memory available"},
      {"swap_used_bytes", 1 << 30, Severity::Warn, "1.00 GiB of swap"},
      {"on_battery", true, Severity::Warn, "battery"},
      {"cpus", 1, Severity::Warn, "1 usable CPU"},
      {"cores", 4, Severity::Warn, "8 CPUs are hardware threads of 4 core(s)"},
      {"cpu_quota", 1.5, Severity::Warn, "a quota of 1.5 cores"},
      {"other_gradsync", {17, 42}, Severity::Warn, "17, 42"},
      {"tools", {{"ip", nullptr}, {"tc", "/sbin/tc"}}, Severity::Fail, "'ip' is missing"},
      {"namespaces", {{"available", false}, {"reason", "no leave"}}, Severity::Fail, "no leave"},
      {"link_shaping", {{"available", false}, {"reason", "no tbf"}}, Severity::Fail, "no tbf"},
  };
  for (const Spoiler& spoiler : spoilers) {
    json host = good_host();
    host[spoiler.field] = spoiler.value;
    const std::vector<Finding> found = bad_ones(host);
    ASSERT_EQ(found.size(), 1U) << spoiler.field;
    EXPECT_EQ(found[0].severity, spoiler.severity) << spoiler.field;
    EXPECT_THAT(found[0].what, HasSubstr(spoiler.words));
    EXPECT_FALSE(found[0].remedy.empty()) << spoiler.field;
  }
}

TEST(ExamineHost, LoadIsJudgedPerCpu) {
  json host = good_host();
  host["load_1min"] = 4.0;
  EXPECT_TRUE(bad_ones(host).empty());
  host["cpus"] = 4;
  EXPECT_EQ(bad_ones(host).size(), 1U);
}

TEST(ExamineHost, PassesOverWhatIsUnknown) {
  json host = good_host();
  for (auto& [name, value] : host.items()) value = nullptr;
  EXPECT_TRUE(examine_host(host).empty());
  EXPECT_TRUE(examine_host(json::object()).empty());
}

TEST(ProbeHost, DescribesThisMachine) {
  const json host = probe_host(0.01);
  EXPECT_GE(host.at("cpus").get<int>(), 1);
  EXPECT_FALSE(host.at("kernel").get<std::string>().empty());
  EXPECT_GT(host.at("memory_total_bytes").get<double>(),
            host.at("memory_available_bytes").get<double>());
  EXPECT_TRUE(host.at("namespaces").at("available").is_boolean());
  for (const char* field : {"host", "cpu_model", "governor", "load_1min", "steal_share",
                            "swap_used_bytes", "transparent_hugepages", "congestion_control",
                            "on_battery", "other_gradsync", "tools", "link_shaping"}) {
    EXPECT_TRUE(host.contains(field)) << field;
  }
  EXPECT_FALSE(examine_host(host).empty());
}

TEST(ProbeHost, SaysWhyWhatIsMissingIsMissing) {
  const json host = probe_host(0);
  for (const char* ability : {"namespaces", "link_shaping"}) {
    const json& answer = host.at(ability);
    EXPECT_EQ(answer.at("reason").is_null(), answer.at("available").get<bool>()) << answer;
  }
  // Where namespaces can be made and iproute2 is there, veth, bridge and tbf are too.
  if (host.at("namespaces").at("available") == true && host.at("tools").at("tc").is_string()) {
    EXPECT_EQ(host.at("link_shaping").at("available"), true) << host.at("link_shaping");
  }
}

}  // namespace
}  // namespace gradsync::launch

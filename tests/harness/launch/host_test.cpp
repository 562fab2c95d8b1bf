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

Host good_host() {
  Host host;
  host.cpus = 8;
  host.governor = "performance";
  host.load_1min = 0.3;
  host.steal_share = 0;
  host.memory_available_bytes = 16'000'000'000;
  host.swap_used_bytes = 0;
  host.on_battery = false;
  host.other_gradsync.emplace();
  host.tools = Tools{"/usr/sbin/ip", "/usr/sbin/tc"};
  host.namespaces = NamespaceAbility{{true, {}}, false};
  host.link_shaping = Ability{true, {}};
  return host;
}

std::vector<Finding> bad_ones(const Host& host) {
  std::vector<Finding> findings = examine_host(host);
  std::erase_if(findings, [](const Finding& f) { return f.severity == Severity::Ok; });
  return findings;
}

struct Spoiler {
  void (*spoil)(Host&);
  Severity severity;
  const char* words;
};

TEST(ExamineHost, FindsNothingWrongWithAGoodMachine) {
  EXPECT_TRUE(bad_ones(good_host()).empty());
  EXPECT_GE(examine_host(good_host()).size(), 10U);
}

// A container's default; only ranks on GPUs are asked about it.
TEST(ExamineHost, LittleSharedMemoryIsNamedWithItsRemedy) {
  Host host = good_host();
  EXPECT_FALSE(examine_shared_memory(host));
  host.shared_memory_bytes = 64 << 20;
  EXPECT_TRUE(bad_ones(host).empty());
  const auto little = examine_shared_memory(host);
  ASSERT_TRUE(little);
  EXPECT_EQ(little->severity, Severity::Warn);
  EXPECT_EQ(little->what, "/dev/shm may hold 64.0 MiB");
  EXPECT_THAT(little->remedy, HasSubstr("--shm-size"));
  host.shared_memory_bytes = kLittleSharedMemoryBytes;
  EXPECT_EQ(examine_shared_memory(host)->severity, Severity::Ok);
}

TEST(ExamineHost, NamesEachSpoilerAlone) {
  const std::vector<Spoiler> spoilers{
      {[](Host& host) { host.governor = "powersave"; }, Severity::Warn, "powersave"},
      {[](Host& host) { host.load_1min = 4.1; }, Severity::Warn, "load average 4.10"},
      {[](Host& host) { host.steal_share = 0.03; }, Severity::Warn, "3.0 %"},
      {[](Host& host) { host.memory_available_bytes = 1'000'000'000; }, Severity::Warn,
       "memory available"},
      {[](Host& host) { host.swap_used_bytes = 1 << 30; }, Severity::Warn, "1.00 GiB of swap"},
      {[](Host& host) { host.on_battery = true; }, Severity::Warn, "battery"},
      {[](Host& host) { host.cpus = 1; }, Severity::Warn, "1 usable CPU"},
      {[](Host& host) { host.cores = 4; }, Severity::Warn,
       "8 CPUs are hardware threads of 4 core(s)"},
      {[](Host& host) { host.cpu_quota = 1.5; }, Severity::Warn, "a quota of 1.5 cores"},
      {[](Host& host) {
         host.other_gradsync = {17, 42};
       },
       Severity::Warn, "17, 42"},
      {[](Host& host) { host.tools->ip.reset(); }, Severity::Fail, "'ip' is missing"},
      {[](Host& host) {
         host.namespaces = NamespaceAbility{{false, "no leave"}, {}};
       },
       Severity::Fail, "no leave"},
      {[](Host& host) {
         host.link_shaping = Ability{false, "no tbf"};
       },
       Severity::Fail, "no tbf"},
  };
  for (const Spoiler& spoiler : spoilers) {
    Host host = good_host();
    spoiler.spoil(host);
    const std::vector<Finding> found = bad_ones(host);
    ASSERT_EQ(found.size(), 1U) << spoiler.words;
    EXPECT_EQ(found[0].severity, spoiler.severity) << spoiler.words;
    EXPECT_THAT(found[0].what, HasSubstr(spoiler.words));
    EXPECT_FALSE(found[0].remedy.empty()) << spoiler.words;
  }
}

TEST(ExamineHost, LoadIsJudgedPerCpu) {
  Host host = good_host();
  host.load_1min = 4.0;
  EXPECT_TRUE(bad_ones(host).empty());
  host.cpus = 4;
  EXPECT_EQ(bad_ones(host).size(), 1U);
}

TEST(ExamineHost, PassesOverWhatIsUnknown) {
  EXPECT_TRUE(examine_host(Host{}).empty());
}

TEST(ProbeHost, DescribesThisMachine) {
  const Host probed = probe_host(0.01);
  const json host = probed;
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
  EXPECT_FALSE(examine_host(probed).empty());
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

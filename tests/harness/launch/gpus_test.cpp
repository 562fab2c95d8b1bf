// The driver's library is a stub here: nvml_stub.cpp.
// Covers: examine_gpus.cpp, loaded_gpus.cpp.
#include "harness/launch/gpus.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "harness/launch/loaded_gpus.h"
#include "tests/paths.h"

namespace gradsync::launch {
namespace {

const std::string kNvmlStub = test::path_of("nvml_stub");

using nlohmann::json;
using testing::HasSubstr;

// Sets variables of the stub for one test.
class Gpus : public testing::Test {
 protected:
  ~Gpus() override {
    for (const std::string& name : set_) ::unsetenv(name.c_str());
  }
  void stub(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }

 private:
  std::vector<std::string> set_;
};

TEST_F(Gpus, AreDescribedAsTheDriverHasThem) {
  stub("STUB_GPUS", "2");
  const auto gpus = probe_gpus(kNvmlStub);
  ASSERT_TRUE(gpus) << gpus.why_not();
  ASSERT_EQ(gpus->size(), 2U);
  EXPECT_EQ(json(gpus->at(0)), json({{"index", 0},
                                     {"name", "NVIDIA Stub 80GB"},
                                     {"uuid", "GPU-0"},
                                     {"pci_bus_id", "00000000:01:00.0"},
                                     {"driver", "580.65.06"},
                                     {"memory_total_bytes", 80LL << 30},
                                     {"memory_used_bytes", 1LL << 30},
                                     {"sm_clock_hz", 1'200'000'000},
                                     {"sm_clock_max_hz", 1'980'000'000},
                                     {"memory_clock_hz", 2'000'000'000},
                                     {"memory_clock_max_hz", 2'619'000'000},
                                     {"throttle_reasons", json::array()},
                                     {"compute_mode", "default"},
                                     {"processes", json::array()},
                                     {"mig_instances", nullptr}}));
  // A fact that one GPU does not report is unknown, and the rest of its facts stay.
  EXPECT_EQ(gpus->at(1).uuid, "GPU-1");
  EXPECT_FALSE(gpus->at(1).sm_clock_max_hz.has_value());
  EXPECT_TRUE(json(gpus->at(1)).at("sm_clock_max_hz").is_null());
}

TEST_F(Gpus, OthersProcessesAndHeldDownClocksAreFound) {
  stub("STUB_GPUS", "1");
  stub("STUB_BUSY", "1234");
  stub("STUB_THROTTLE", "0x44");
  const auto gpus = probe_gpus(kNvmlStub);
  const json gpu = gpus->at(0);
  EXPECT_EQ(gpu.at("processes"), json({{{"pid", 1234}, {"memory_bytes", 3LL << 29}},
                                       {{"pid", 1235}, {"memory_bytes", nullptr}}}));
  EXPECT_EQ(gpu.at("throttle_reasons"), json({"sw_power_cap", "hw_thermal_slowdown"}));
  const auto findings = examine_gpus(gpus);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].severity, Finding::Severity::Warn);
  EXPECT_EQ(findings[0].what,
            "GPU 0 (NVIDIA Stub 80GB) is busy: process 1234 (1.50 GiB), process 1235");
  EXPECT_THAT(findings[0].remedy, HasSubstr("CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(findings[1].what, HasSubstr("sw_power_cap, hw_thermal_slowdown"));
}

TEST_F(Gpus, WhatHoldsThemDownUnderLoadIsCounted) {
  stub("STUB_GPUS", "2");
  std::vector<LoadedGpu> loaded;
  add_readings(loaded, *probe_gpus(kNvmlStub));
  EXPECT_TRUE(examine_loaded(loaded).empty());
  stub("STUB_THROTTLE", "0x44");
  auto hot = *probe_gpus(kNvmlStub);
  hot[0].sm_clock_hz = 900'000'000;
  add_readings(loaded, hot);
  ASSERT_EQ(loaded.size(), 2U);
  EXPECT_EQ(json(loaded[0]),
            json({{"index", 0},
                  {"uuid", "GPU-0"},
                  {"readings", 2},
                  {"least_sm_clock_hz", 900'000'000},
                  {"throttled", {{"hw_thermal_slowdown", 1}, {"sw_power_cap", 1}}}}));
  const auto findings = examine_loaded(loaded);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].what,
            "GPU 0 ran below its clocks under load: hw_thermal_slowdown in 1 of 2 readings, "
            "sw_power_cap in 1 of 2 readings");
}

TEST_F(Gpus, InstancesOfADividedGpuAreListedAndTold) {
  stub("STUB_GPUS", "2");
  stub("STUB_MIG", "3");
  const auto gpus = probe_gpus(kNvmlStub);
  EXPECT_THAT(*gpus->at(0).mig_instances, testing::ElementsAre("MIG-100", "MIG-101"));
  EXPECT_FALSE(gpus->at(1).mig_instances.has_value());
  const auto findings = examine_gpus(gpus);
  EXPECT_EQ(findings[0].severity, Finding::Severity::Warn);
  EXPECT_THAT(findings[0].what, HasSubstr("is divided into 2 MIG instances"));
  EXPECT_THAT(findings[0].remedy, HasSubstr("NCCL 2.30"));

  stub("STUB_MIG", "1");
  const auto without = examine_gpus(probe_gpus(kNvmlStub));
  EXPECT_EQ(without[0].severity, Finding::Severity::Fail);
  EXPECT_THAT(without[0].remedy, HasSubstr("nvidia-smi -mig 0"));
}

TEST_F(Gpus, AGpuThatLetsNobodyComputeIsAFailure) {
  stub("STUB_GPUS", "1");
  stub("STUB_MODE", "2");
  const auto findings = examine_gpus(probe_gpus(kNvmlStub));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Finding::Severity::Fail);
  EXPECT_THAT(findings[0].remedy, HasSubstr("nvidia-smi -c DEFAULT"));
}

TEST_F(Gpus, NoDriverNoGpusAndNoNewFunctionsHaveTheirReasons) {
  const auto absent = probe_gpus("libno_such_library.so.1");
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.why_not(), HasSubstr("libno_such_library.so.1"));
  EXPECT_EQ(examine_gpus(absent).at(0).severity, Finding::Severity::Ok);

  stub("STUB_INIT", "9");
  EXPECT_EQ(probe_gpus(kNvmlStub).why_not(), "NVML does not start: Driver Not Loaded");
  stub("STUB_INIT", "0");
  EXPECT_TRUE(probe_gpus(kNvmlStub)->empty());

  // Some other library: it loads, and has none of the functions.
  EXPECT_EQ(probe_gpus("libm.so.6").why_not(), "NVML does not start: the driver is too old");
}

}  // namespace
}  // namespace gradsync::launch

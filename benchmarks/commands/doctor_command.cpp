// gradsync doctor: what would spoil a number on this machine, and the remedy.
#include <fmt/format.h>

#include <iostream>

#include "benchmarks/commands/commands.h"
#include "harness/base/build_info.h"
#include "harness/launch/fabric.h"
#include "harness/launch/host.h"
#include "harness/launch/topology.h"
#include "harness/launch/visible_gpus.h"
#include "harness/session/context.h"
#include "harness/session/paths.h"
#include "harness/session/rank_program.h"
#include "harness/watch/inject/job_torch.h"

namespace gradsync::cli {
namespace {

using launch::Finding;
using Severity = launch::Finding::Severity;

// Tries what a multi-node plan needs, for real.
Finding try_fabric() {
  try {
    const auto topology = launch::read_topology("2x1_1gbit", session::topologies_directory());
    const auto link = launch::make_fabric(topology)->self_test(0.2);
    return {Severity::Ok,
            fmt::format(
                "namespaces and a shaped link work: {:.0f} Mbit/s of payload on a link of {:.0f}",
                link->measured_payload_bits_per_s / 1e6, link->rate_bits_per_s / 1e6),
            ""};
  } catch (const EnvironmentError& error) {
    return {Severity::Warn, "multi-node rows would be skipped", error.what()};
  }
}

Finding about_build() {
  if (build_info().timing_valid) {
    return {Severity::Ok, fmt::format("{} build", build_info().build_type), ""};
  }
  return {Severity::Fail, "a debug or sanitizer build: its times mean nothing",
          "build the release preset"};
}

Finding about_rank_program() {
  try {
    const coordinate::RankAbout& about = session::about_ranks();
    return {Severity::Ok,
            fmt::format("ranks can run: torch {}, {}{}", about.torch, about.blas,
                        about.has_gpu_module ? ", CUDA" : ""),
            ""};
  } catch (const EnvironmentError& error) {
    return {Severity::Warn, "no rank can run here", error.what()};
  }
}

Finding about_watching() {
  try {
    const watch::JobTorch torch = watch::find_job_torch({});
    return {Severity::Ok,
            fmt::format("jobs of this python3 can be watched: torch {}", torch.version), ""};
  } catch (const EnvironmentError& error) {
    return {Severity::Warn, "jobs of this python3 cannot be watched", error.what()};
  }
}

}  // namespace

void add_doctor_command(CLI::App& app, ExitStatus& status) {
  CLI::App* command =
      app.add_subcommand("doctor", "Check this machine for missing tools and sources of noise")
          ->group(kProgram);
  command->callback([&status] {
    std::vector<Finding> findings =
        session::findings_about(launch::probe_host(), session::visible_gpus());
    if (const auto rocm = launch::find_rocm()) findings.push_back(*rocm);
    findings.push_back(about_build());
    findings.push_back(about_rank_program());
    findings.push_back(about_watching());
    findings.push_back(try_fabric());
    for (const Finding& finding : findings) {
      const char* word = finding.severity == Severity::Ok     ? "ok  "
                         : finding.severity == Severity::Warn ? "warn"
                                                              : "FAIL";
      std::cout << word << "  " << finding.what << "\n";
      if (!finding.remedy.empty()) std::cout << "      remedy: " << finding.remedy << "\n";
      if (finding.severity == Severity::Fail) status = ExitStatus::Unfit;
    }
  });
}

}  // namespace gradsync::cli

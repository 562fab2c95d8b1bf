// gradsync-rank: all of the suite that needs torch. gradsync starts it; it is not for people.
//
//   gradsync-rank rank          one rank of a launch, which receives its work (rank_main.h)
//   gradsync-rank about         prints what it is (rank_about.h)
//   gradsync-rank store-get HOST PORT TIMEOUT_S KEY
//   gradsync-rank store-set HOST PORT TIMEOUT_S KEY VALUE
//                               asks torchrun's store (comm/store.h); get prints the value
//
// Errors are printed on standard output, in one line, and set the exit status.
#include <ATen/Context.h>
#include <c10/util/Logging.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "harness/base/build_info.h"
#include "harness/base/errors.h"
#include "harness/base/log.h"
#include "harness/comm/gpu.h"
#include "harness/comm/store.h"
#include "harness/coordinate/rank_about.h"
#include "harness/run/rank_main.h"
#include "models/model.h"

namespace gradsync::run {
namespace {

const char* blas_name() {
  if (at::hasMKL()) return "mkl";
  return at::hasLAPACK() ? "lapack" : "reference";
}

// The folder above the lib/ that torch was loaded from.
std::string torch_folder() {
  link_map* loaded = nullptr;
  void* torch = ::dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (torch == nullptr || ::dlinfo(torch, RTLD_DI_LINKMAP, &loaded) != 0) return "";
  return std::filesystem::canonical(loaded->l_name).parent_path().parent_path();
}

coordinate::RankAbout about() {
  coordinate::RankAbout about{build_info().commit, build_info().torch_version,       torch_folder(),
                              blas_name(),         !comm::find_gpu_module().empty(), {}};
  for (const models::ModelEntry& entry : models::registry()) {
    about.models.push_back(entry);
  }
  return about;
}

comm::AgentStore store_of(const std::vector<std::string>& words) {
  return {words.at(1), std::stoi(words.at(2)), std::stod(words.at(3))};
}

int act_on(const std::vector<std::string>& words) {
  const std::string command = words.empty() ? "" : words.front();
  constexpr std::size_t kGetWords = 5;
  constexpr std::size_t kSetWords = 6;
  if (command == "rank") {
    c10::initLogging();  // reads TORCH_CPP_LOG_LEVEL, which Python does on import
    return rank_main();
  }
  if (command == "about") {
    std::cout << nlohmann::json(about()).dump() << "\n";
  } else if (command == "store-get" && words.size() == kGetWords) {
    std::cout << store_of(words).get(words.at(4)) << "\n";
  } else if (command == "store-set" && words.size() == kSetWords) {
    store_of(words).set(words.at(4), words.at(5));
  } else {
    throw ConfigError(
        fmt::format("got '{}', expected rank, about, store-get or store-set: gradsync starts this "
                    "program",
                    fmt::join(words, " ")));
  }
  return 0;
}

}  // namespace
}  // namespace gradsync::run

int main(int argc, char** argv) {
  gradsync::log::configure(false);
  try {
    return gradsync::run::act_on({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cout << error.what() << "\n";
    return static_cast<int>(gradsync::exit_status_of(error));
  }
}

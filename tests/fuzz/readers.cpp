#include "tests/fuzz/readers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "harness/gate/gate_file.h"
#include "harness/gate/row_decision.h"
#include "harness/gate/settings.h"
#include "harness/gate/turns.h"
#include "harness/launch/topology.h"
#include "harness/plan/plan.h"
#include "harness/results/store.h"
#include "harness/watch/judge/watched.h"
#include "harness/watch/read/foreign/kineto.h"
#include "harness/watch/read/hook_events.h"
#include "harness/watch/read/read_events.h"
#include "harness/watch/tell/pages.h"
#include "harness/watch/tell/watched_files.h"
#include "models/checkpoint.h"
#include "models/data_file.h"
#include "models/profile.h"
#include "models/safetensors_file.h"

namespace gradsync::fuzz {

namespace fs = std::filesystem;

namespace {

// A file without a place on a disk, for readers that want a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : fd_(::memfd_create("gradsync_fuzz", MFD_CLOEXEC)) {
    if (fd_ >= 0 && ::write(fd_, bytes.data(), bytes.size()) == std::ssize(bytes)) return;
    ::close(fd_);
    throw std::runtime_error("no file in memory");
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

// A run's directory with one file in it; one for the whole process, removed at its end.
class RunDirectory {
 public:
  RunDirectory() : path_((fs::temp_directory_path() / "gradsync_fuzz_XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no temporary directory");
  }
  ~RunDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& with(const char* file, std::string_view bytes) const {
    std::ofstream(path_ + "/" + file, std::ios::binary) << bytes;
    return path_;
  }

 private:
  std::string path_;
};

const RunDirectory& run_directory() {
  static const RunDirectory directory;
  return directory;
}

bool accepted(const std::function<void()>& read) {
  try {
    read();
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

bool accepts_data(std::string_view bytes) {
  constexpr std::int64_t kVocabulary = 1000;
  constexpr std::int64_t kLongest = 16;
  const MemoryFile file(bytes);
  return accepted([&] {
    for (const models::Example& example :
         models::read_examples(file.path(), kVocabulary, kLongest)) {
      GRADSYNC_CHECK(std::ssize(example.ids), <=, kLongest);
    }
  });
}

bool accepts_foreign(std::string_view bytes) {
  const MemoryFile file(bytes);
  return accepted([&] {
    const auto watched = watch::summarize(watch::read_foreign_job({file.path()}));
    watch::watch_page(watched);
    watch::watch_json(watched).dump();
  });
}

bool accepts_gate(std::string_view bytes) {
  const MemoryFile file(bytes);
  return accepted([&] {
    for (const gate::Claim& claim : gate::read_gate_file(file.path()).claims) claim.need();
  });
}

bool accepts_plan(std::string_view bytes) {
  constexpr std::size_t kMostExpanded = 1000;  // trials: more take time and teach nothing
  const MemoryFile file(bytes);
  return accepted([&] {
    const plan::Plan plan = plan::read_plan(file.path(), {});
    std::size_t trials = 0;
    for (const plan::Part& part : plan.parts) {
      trials += part.cells.size() * static_cast<std::size_t>(part.launches * part.rounds);
    }
    if (trials <= kMostExpanded) plan::expand(plan);
  });
}

bool accepts_profile(std::string_view bytes) {
  const MemoryFile file(bytes);
  return accepted([&] {
    const models::Profile profile = models::read_profile(file.path());
    for (const models::ProfileLayer& layer : profile.layers) {
      for (const models::ProfileTensor& tensor : layer.parameters) tensor.elements();
    }
  });
}

bool accepts_result(std::string_view bytes) {
  return accepted([&] { results::read_result(run_directory().with(results::kResultFile, bytes)); });
}

bool accepts_safetensors(std::string_view bytes) {
  const MemoryFile file(bytes);
  return accepted([&] { const models::SafetensorsFile tensors(file.path()); });
}

bool accepts_shard_index(std::string_view bytes) {
  const MemoryFile file(bytes);
  return accepted([&] { models::read_weight_map(file.path()); });
}

bool accepts_topology(std::string_view bytes) {
  const MemoryFile file(bytes);
  return accepted([&] { launch::read_topology(file.path(), "", 2); });
}

bool accepts_trials(std::string_view bytes) {
  return accepted([&] {
    const auto trials = results::read_trials(run_directory().with(results::kTrialsFile, bytes));
    for (const results::TrialRecord& trial : trials) nlohmann::json(trial).dump();
  });
}

bool accepts_turns(std::string_view bytes) {
  const MemoryFile file(bytes);
  return accepted([&] {
    const auto family = gate::turn_family_from_json(read_json_file(file.path()), file.path());
    gate::to_json(family).dump();
    for (const gate::RowTurns& row : family.rows) {
      gate::differences(row.turns, gate::Settings{}.low_quantile);
    }
  });
}

bool accepts_watch(std::string_view bytes) {
  constexpr int kMicroBatches = 1'000'000;
  const MemoryFile file(bytes);
  return accepted([&] {
    const auto watched = watch::watched_from_json(read_json_file(file.path()), file.path());
    watch::watch_page(watched);
    watch::watch_csv(watched);
    if (!watched.typical || !watched.typical->parts) return;
    watch::collectives_of(*watched.typical->parts, kMicroBatches, kMicroBatches);
  });
}

bool accepts_watch_events(std::string_view bytes) {
  const MemoryFile file(bytes);
  return accepted([&] { watch::read_events(file.path()); });
}

bool accepts_watch_hook(std::string_view bytes) {
  return accepted([&] {
    watch::RankEvents process;
    watch::merge(process, watch::parse_hook_events(bytes, "hook.jsonl"));
    watch::watch_page(watch::summarize({process}));
  });
}

}  // namespace

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all = {{"data", accepts_data},
                                          {"foreign", accepts_foreign},
                                          {"gate", accepts_gate},
                                          {"plan", accepts_plan},
                                          {"profile", accepts_profile},
                                          {"result", accepts_result},
                                          {"safetensors", accepts_safetensors},
                                          {"shard_index", accepts_shard_index},
                                          {"topology", accepts_topology},
                                          {"trials", accepts_trials},
                                          {"turns", accepts_turns},
                                          {"watch", accepts_watch},
                                          {"watch_events", accepts_watch_events},
                                          {"watch_hook", accepts_watch_hook}};
  return all;
}

}  // namespace gradsync::fuzz

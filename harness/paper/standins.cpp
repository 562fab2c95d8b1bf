#include "harness/paper/standins.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "harness/base/errors.h"
#include "harness/base/in_parallel.h"
#include "harness/base/program_files.h"
#include "harness/launch/compile_on_use.h"
#include "harness/paper/library_table.h"
#include "harness/paper/symbols.h"

namespace gradsync::paper {
namespace {

namespace fs = std::filesystem;
using launch::Words;

constexpr const char* kPurpose = "GPUs of paper";
constexpr const char* kGpus = "GRADSYNC_PAPER";  // the variable that says which
constexpr const char* kSources = "harness/paper/standins/";
constexpr const char* kPreload = "libgradsync_paper.so";

// What is compiled into every stand-in, and into the one that has the GPUs.
constexpr const char* kRefuse = "harness/paper/standins/refuse.cpp";
constexpr const char* kGpuModels = "harness/paper/gpu_models.cpp";

void build(const Words& command) {
  launch::compile(command, kPurpose, "report the version of torch and of its CUDA");
}

// Returns the folder with that header, of the packages beside torch or of an installed toolkit; "":
// there is none.
std::string find_include_folder(const std::string& torch, const std::string& header) {
  std::error_code error;
  for (const auto& package : fs::directory_iterator(torch + "/../nvidia", error)) {
    const fs::path folder = package.path() / "include";
    if (fs::exists(folder / header)) return fs::canonical(folder);
  }
  const std::string installed = "/usr/local/cuda/include";
  return fs::exists(installed + "/" + header) ? installed : "";
}

// Returns the library that knows the workspaces of convolutions, which may not exist; "": torch has
// no cuDNN beside it.
std::string cudnn_graphs(const std::string& torch) {
  const std::string include = find_include_folder(torch, "cudnn_version.h");
  if (include.empty()) return "";
  return (fs::path(include).parent_path() / "lib/libcudnn_graph.so.9").string();
}

std::string include_folder(const std::string& torch, const std::string& header) {
  std::string found = find_include_folder(torch, header);
  if (!found.empty()) return found;
  throw EnvironmentError(
      fmt::format("{} is not beside the torch in {}, nor in /usr/local/cuda/include", header,
                  torch),
      "install torch with the NVIDIA packages that it asks for (pip install torch)");
}

// One build, and where everything for it is.
struct Workshop {
  std::string torch, source_dir, folder, compiler;
  Words include;
  TorchNeeds needs;

  std::string soname_of(const StandIn& row) const;
  std::set<std::string> names_of(const StandIn& row) const;
  Words link_options(const StandIn& row, const std::string& soname) const;
  void make(const StandIn& row, const std::string& soname) const;
  void make_all() const;
};

// "": this torch does not know the library.
std::string Workshop::soname_of(const StandIn& row) const {
  if (!row.soname.empty()) return row.soname;
  const auto found = std::ranges::find_if(needs.libraries, [&](const std::string& library) {
    return library.starts_with(row.stem + ".so");
  });
  return found == needs.libraries.end() ? "" : *found;
}

std::set<std::string> Workshop::names_of(const StandIn& row) const {
  const std::regex own(row.functions);
  std::set<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::regex_match(name, own)) names.insert(name);
  };
  for (const auto& [name, version] : needs.imports) add(name);
  for (const std::string& name : needs.spelled) add(name);
  if (row.header.empty()) return names;
  const std::string folder = include_folder(torch, row.header);
  for (const std::string& name : functions_of_header(folder + "/" + row.header)) add(name);
  return names;
}

// A weak function for each name: what the sources define goes first.
std::string refusing_source(const StandIn& row, const std::set<std::string>& names) {
  const std::regex computes(row.computes);
  std::string text = "#include \"harness/paper/standins/refuse.h\"\nextern \"C\" {\n";
  for (const std::string& name : names) {
    const bool is_success = !row.computes.empty() && std::regex_match(name, computes);
    text += fmt::format("__attribute__((weak)) long {}() {{ return {}; }}\n", name,
                        is_success ? "0" : fmt::format("gradsync::paper::refuse(\"{}\")", name));
  }
  return text + "}\n";
}

// The version of its symbols, where torch asks for one, and the library that the others use.
Words Workshop::link_options(const StandIn& row, const std::string& soname) const {
  Words options{"-Wl,-soname," + soname, "-Wl,-rpath,$ORIGIN", "-Wl,-Bsymbolic-functions"};
  const std::regex own(row.functions);
  for (const auto& [name, version] : needs.imports) {
    if (version.empty() || !std::regex_match(name, own)) continue;
    const std::string script = folder + "/" + row.stem + ".map";
    std::ofstream(script) << version << " { global: *; };\n";
    options.push_back("-Wl,--version-script=" + script);
    break;
  }
  if (const std::string first = stand_ins().front().soname; soname != first) {
    options.insert(options.end(), {"-L" + folder, "-l:" + first});
  }
  return options;
}

void Workshop::make(const StandIn& row, const std::string& soname) const {
  const std::string generated = folder + "/" + row.stem + ".cpp";
  std::ofstream(generated) << refusing_source(row, names_of(row));
  Words command{compiler,
                "-std=c++20",
                "-O1",
                "-fPIC",
                "-shared",
                "-w",
                fmt::format("-DGRADSYNC_PAPER_REFUSAL={}", row.refusal),
                "-I" + source_dir};
  command.insert(command.end(), include.begin(), include.end());
  command.insert(command.end(), {generated, source_dir + "/" + kRefuse});
  for (const std::string& source : row.sources) {
    command.push_back(source_dir + "/" + kSources + source + ".cpp");
  }
  if (soname == stand_ins().front().soname) command.push_back(source_dir + "/" + kGpuModels);
  for (const std::string& option : link_options(row, soname)) command.push_back(option);
  command.insert(command.end(), {"-o", folder + "/" + soname});
  build(command);
}

// The last one has nothing but the need of all others.
void Workshop::make_all() const {
  Words last{compiler,
             "-shared",
             "-fPIC",
             "-x",
             "c++",
             "/dev/null",
             "-o",
             folder + "/" + kPreload,
             "-Wl,--no-as-needed",
             "-L" + folder,
             "-Wl,-rpath,$ORIGIN",
             "-Wl,--disable-new-dtags"};
  const std::vector<StandIn>& rows = stand_ins();
  make(rows.front(), rows.front().soname);
  in_parallel(rows.size() - 1, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin + 1; i <= end; ++i) {
      if (const std::string soname = soname_of(rows[i]); !soname.empty()) make(rows[i], soname);
    }
  });
  for (const StandIn& row : rows) {
    if (const std::string soname = soname_of(row); !soname.empty()) last.push_back("-l:" + soname);
  }
  build(last);
}

// Returns all that decides what is built; a library of torch by its path, size and time.
std::string made_of(const std::string& torch, const std::string& source_dir,
                    const std::string& compiler) {
  Words sources{kRefuse, kGpuModels};
  std::string rows;
  for (const StandIn& row : stand_ins()) {
    for (const std::string& source : row.sources) sources.push_back(kSources + source + ".cpp");
    rows += fmt::format("{} {} {} {}", row.stem, row.functions, row.refusal, row.computes);
  }
  return launch::file_identity(torch + "/lib/libtorch_cuda.so") +
         launch::file_identity(cudnn_graphs(torch)) + launch::file_identity(compiler) + rows +
         launch::text_of_sources(source_dir, sources);
}

}  // namespace

void require_gpus(const std::string& on) {
  std::string wrong;
  if (parse_gpus(on, wrong).count == 0) throw ConfigError("--on: " + wrong);
}

bool are_same(const std::string& gpus, const std::string& others) {
  if (gpus.empty() || others.empty()) return gpus == others;
  std::string wrong;
  const Gpus left = parse_gpus(gpus, wrong);
  const Gpus right = parse_gpus(others, wrong);
  return left.count == right.count && left.model.product == right.model.product;
}

std::string build_standins(const std::string& torch) {
  const std::string cache = launch::build_cache("paper");
  if (cache.empty()) {
    throw EnvironmentError("there is no folder to keep GPUs of paper in", "set XDG_CACHE_HOME");
  }
  const std::string source_dir = data_folder();
  const std::string compiler = launch::find_compiler(kPurpose);
  const launch::Build build(cache, "cuda", made_of(torch, source_dir, compiler));
  if (!build.has({kPreload})) {
    Workshop workshop{torch, source_dir, "", compiler, {}, needs_of_torch(torch)};
    for (const char* header : {"cuda_runtime_api.h", "nccl.h"}) {
      workshop.include.insert(workshop.include.end(), {"-isystem", include_folder(torch, header)});
    }
    if (const std::string graphs = cudnn_graphs(torch); !graphs.empty()) {
      workshop.include.insert(workshop.include.end(),
                              {"-isystem", include_folder(torch, "cudnn_version.h"),
                               fmt::format("-DGRADSYNC_PAPER_CUDNN=\"{}\"", graphs)});
    }
    build.make(
        [&](const std::string& folder) {
          workshop.folder = folder;
          workshop.make_all();
        },
        {kPreload});
  }
  return build.folder() + "/" + kPreload;
}

std::string cuda_headers(const std::string& torch) {
  return include_folder(torch, "cuda_runtime_api.h");
}

bool are_given() {
  const char* gpus = std::getenv(kGpus);
  return gpus != nullptr && *gpus != '\0';
}

std::vector<std::pair<std::string, std::string>> environment_of(const std::string& library,
                                                                const std::string& gpus) {
  const char* before = std::getenv("LD_PRELOAD");
  const std::string others = before == nullptr || *before == '\0' ? "" : fmt::format(":{}", before);
  return {{kGpus, gpus},
          {"LD_PRELOAD", library + others},
          // Triton asks the system where the driver is.
          {"TRITON_LIBCUDA_PATH", fs::path(library).parent_path()}};
}

}  // namespace gradsync::paper

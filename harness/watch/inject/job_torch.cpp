#include "harness/watch/inject/job_torch.h"

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <sstream>
#include <tuple>

#include "harness/base/errors.h"
#include "harness/launch/namespaces.h"
#include "harness/launch/program_output.h"

namespace gradsync::watch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "lib/libtorch_cpu.so";
constexpr const char* kRecordFunction = "include/ATen/record_function.h";
constexpr std::array kVersionHeaders = {"include/torch/headeronly/version.h",
                                        "include/torch/csrc/api/include/torch/version.h"};
constexpr int kOldestMajor = 2;
constexpr int kOldestMinor = 6;
constexpr double kAnswerS = 120;  // an interpreter may come over a slow network

// Finds torch as `import torch` would, without the seconds that takes.
constexpr const char* kWhereIsTorch =
    "import importlib.util\n"
    "spec = importlib.util.find_spec('torch')\n"
    "print('torch:' + (list(spec.submodule_search_locations or ['']) + [''])[0] if spec else "
    "'torch:')\n";

std::string beginning_of(const std::string& path, std::size_t size) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

// Returns the program that a word names; "" where it names none.
std::string program_of(const std::string& word) {
  if (word.find('/') == std::string::npos) return word.empty() ? "" : launch::find_program(word);
  std::error_code ignored;
  return fs::is_regular_file(word, ignored) && ::access(word.c_str(), X_OK) == 0 ? word : "";
}

// "python", "python3", "python3.13t". Whatever else is named so is not asked: it would run.
bool is_python(const std::string& program) {
  static const std::regex name("python[0-9]*(\\.[0-9]+)*[td]*");
  return std::regex_match(fs::path(program).filename().string(), name);
}

// Returns the interpreter on a script's first line, or on its second in the form that pip writes
// where the first would be too long; "" where it is not Python.
std::string python_of_script(const std::string& text) {
  std::istringstream lines(text.substr(2));
  std::string line;
  std::getline(lines, line);
  std::istringstream words(line);
  std::string word;
  words >> word;
  if (fs::path(word).filename() == "sh") {
    constexpr std::string_view kTrick = "'''exec' ";
    if (!std::getline(lines, line) || !line.starts_with(kTrick)) return "";
    words = std::istringstream(line.substr(kTrick.size()));
    words >> word;
    std::erase(word, '"');
  }
  if (fs::path(word).filename() == "env") {
    while (words >> word && word.starts_with('-')) {
    }
    word = program_of(word);
  }
  return is_python(word) ? word : "";
}

// Returns what loads a dynamically linked program, "" for others: only such a one may be asked for
// its libraries, since any other would run.
std::string loader_of(const std::string& path) {
  constexpr std::size_t kEnough = 4096;
  const std::string bytes = beginning_of(path, kEnough);
  Elf64_Ehdr header{};
  if (bytes.size() < sizeof header || bytes[EI_CLASS] != ELFCLASS64) return "";
  std::memcpy(&header, bytes.data(), sizeof header);
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    const std::size_t at = header.e_phoff + i * sizeof segment;
    if (at > bytes.size() || bytes.size() - at < sizeof segment) return "";
    std::memcpy(&segment, bytes.data() + at, sizeof segment);
    if (segment.p_type == PT_INTERP && segment.p_offset < bytes.size()) {
      return bytes.c_str() + segment.p_offset;
    }
  }
  return "";
}

// Returns the folder of the torch that a program is linked with; "" where it is not.
std::string torch_linked_with(const std::string& program) {
  const std::string loader = loader_of(program);
  if (loader.empty()) return "";
  std::istringstream lines(launch::output_of({loader, "--list", program}, kAnswerS).text);
  for (std::string line; std::getline(lines, line);) {
    const auto arrow = line.find(" => /");
    if (line.find("libtorch_cpu.so") == std::string::npos || arrow == std::string::npos) continue;
    const std::string path = line.substr(arrow + 4, line.rfind(" (") - arrow - 4);
    return fs::path(path).parent_path().parent_path().string();
  }
  return "";
}

std::string torch_of_python(const std::string& python) {
  const std::string text = launch::output_of({python, "-c", kWhereIsTorch}, kAnswerS).text;
  constexpr std::string_view kMark = "torch:";
  const auto mark = text.rfind(kMark);
  std::string folder = mark == std::string::npos ? "" : text.substr(mark + kMark.size());
  if (!folder.empty()) return folder;
  throw EnvironmentError(fmt::format("{} has no torch", python),
                         "name the job's own interpreter with --python");
}

// Returns the torch that a program will use; nothing where it does not say.
std::optional<std::string> torch_of_program(const std::string& program) {
  if (is_python(program)) return torch_of_python(program);  // a version manager's may be a script
  constexpr std::size_t kEnough = 1024;
  const std::string begin = beginning_of(program, kEnough);
  std::string python;
  std::string folder;
  if (begin.starts_with("#!")) python = python_of_script(begin);
  if (begin.starts_with(ELFMAG)) folder = torch_linked_with(program);
  if (!python.empty()) return torch_of_python(python);
  return folder.empty() ? std::nullopt : std::optional(folder);
}

int number_after(const std::string& text, const std::string& name) {
  const auto at = text.find(name);
  int number = -1;
  if (at != std::string::npos) {
    const char* begin = text.data() + at + name.size();
    std::from_chars(begin, text.data() + text.size(), number);
  }
  return number;
}

std::string text_or_nothing(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// torch 2.10 moved it: its second header only includes the first.
std::string version_header(const std::string& folder) {
  for (const char* path : kVersionHeaders) {
    std::string text = text_or_nothing(folder + "/" + path);
    if (text.find("define TORCH_VERSION_MAJOR ") != std::string::npos) return text;
  }
  throw EnvironmentError(
      fmt::format("the torch in {} has no {}", folder, kVersionHeaders.front()),
      fmt::format("the watcher needs torch {}.{} or later", kOldestMajor, kOldestMinor));
}

// How std::string is named in what c10 exports; what it has of the C++ library names both.
bool has_new_strings(const std::string& library) {
  std::size_t begin = 0;
  while ((begin = library.find("_ZN3c10", begin)) != std::string::npos) {
    const std::size_t end = library.find('\0', begin);
    if (library.substr(begin, end - begin).find("__cxx11") != std::string::npos) return true;
    begin = end;
  }
  return false;
}

void check_age(const std::string& folder, int major, int minor) {
  if (std::tie(major, minor) >= std::tie(kOldestMajor, kOldestMinor)) return;
  throw EnvironmentError(
      fmt::format("the torch in {} is version {}.{}", folder, major, minor),
      fmt::format("the watcher needs {}.{} or later", kOldestMajor, kOldestMinor));
}

}  // namespace

std::string minor_of(const JobTorch& torch) {
  return torch.version.substr(0, torch.version.rfind('.'));
}

JobTorch examine_torch(const std::string& folder) {
  const auto require = [&folder](const char* file, const char* remedy) {
    if (fs::exists(fs::path(folder) / file)) return;
    throw EnvironmentError(fmt::format("the torch in {} has no {}", folder, file), remedy);
  };
  require(kLibrary, "a torch that is linked statically cannot be watched");
  require(kRecordFunction, "install torch from its wheel, which brings its headers");
  const std::string header = version_header(folder);
  const int major = number_after(header, "define TORCH_VERSION_MAJOR ");
  const int minor = number_after(header, "define TORCH_VERSION_MINOR ");
  const int patch = number_after(header, "define TORCH_VERSION_PATCH ");
  check_age(folder, major, minor);
  return {folder, fmt::format("{}.{}.{}", major, minor, patch),
          has_new_strings(text_or_nothing(folder + "/lib/libc10.so"))};
}

JobTorch find_job_torch(const std::vector<std::string>& command, const std::string& python) {
  if (!python.empty()) return examine_torch(torch_of_python(python));
  for (const std::string& word : command) {
    const std::string program = program_of(word);
    if (program.empty()) continue;
    if (const auto folder = torch_of_program(program)) return examine_torch(*folder);
  }
  return examine_torch(torch_of_python("python3"));
}

}  // namespace gradsync::watch

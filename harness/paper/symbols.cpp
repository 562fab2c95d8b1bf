#include "harness/paper/symbols.h"

#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <sstream>

#include "harness/base/errors.h"
#include "harness/base/whole_file.h"
#include "harness/launch/program_output.h"

namespace gradsync::paper {
namespace {

namespace fs = std::filesystem;

constexpr double kToolS = 120;

std::string said_by(const std::vector<std::string>& command) {
  const launch::ProgramOutput output = launch::output_of(command, kToolS);
  if (output.status == 0) return output.text;
  throw EnvironmentError(fmt::format("{} failed on {}", command.front(), command.back()),
                         "install binutils, and torch again if that library is damaged");
}

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// "U cudaMalloc@libcudart.so.13": a symbol that another library defines.
void add_imports(const std::string& library, TorchNeeds& needs) {
  std::istringstream lines(
      said_by({"nm", "-D", "--undefined-only", "--with-symbol-versions", library}));
  for (std::string kind, symbol; lines >> kind >> symbol;) {
    const std::size_t at = symbol.find('@');
    const std::size_t version = symbol.find_first_not_of('@', at);
    needs.imports[symbol.substr(0, at)] =
        version == std::string::npos ? "" : symbol.substr(version);
  }
}

// "0x1 (NEEDED)  Shared library: [libcudart.so.13]".
void add_libraries(const std::string& library, TorchNeeds& needs) {
  std::istringstream lines(said_by({"readelf", "-d", "-W", library}));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t open = line.find('[');
    if (line.find("(NEEDED)") == std::string::npos || open == std::string::npos) continue;
    needs.libraries.insert(line.substr(open + 1, line.find(']') - open - 1));
  }
}

// NVML's functions are found by their names, which are texts of the library.
void add_spelled(const std::string& library, TorchNeeds& needs) {
  constexpr std::string_view kStart = "nvml";
  const std::string text = whole_file(library);
  for (std::size_t at = text.find(kStart); at != std::string::npos;
       at = text.find(kStart, at + 1)) {
    if (at == 0 || text[at - 1] != '\0') continue;
    std::size_t end = at;
    while (end < text.size() && is_name_character(text[end])) ++end;
    if (end < text.size() && text[end] == '\0') needs.spelled.insert(text.substr(at, end - at));
  }
}

}  // namespace

TorchNeeds needs_of_torch(const std::string& folder) {
  const std::string lib = folder + "/lib/";
  if (!fs::exists(lib + "libc10_cuda.so")) {
    throw EnvironmentError(
        fmt::format("the torch in {} is built without CUDA", folder),
        "use one that is built with it, which GPUs of paper need and which runs without a GPU");
  }
  TorchNeeds needs;
  for (const fs::directory_entry& entry : fs::directory_iterator(lib)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("lib") || !name.ends_with(".so") || !entry.is_regular_file()) continue;
    add_imports(entry.path(), needs);
    add_libraries(entry.path(), needs);
  }
  for (const char* library : {"libc10_cuda.so", "libtorch_cuda.so"})
    add_spelled(lib + library, needs);
  return needs;
}

std::set<std::string> functions_of_header(const std::string& path) {
  if (!fs::exists(path)) {
    throw EnvironmentError(path + " is missing",
                           "install the package of torch that has CUDA's headers "
                           "(nvidia-cuda-runtime)");
  }
  const std::string text = whole_file(path);
  std::set<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_name_character(text[end])) ++end;
    if (end == at) {
      ++at;
      continue;
    }
    std::size_t next = end;
    while (next < text.size() && text[next] == ' ') ++next;
    // A call or a declaration, or the last word of a line: what a macro stands for.
    const bool is_last = next < text.size() && (text[next] == '\n' || text[next] == '\r');
    if (next < text.size() && (text[next] == '(' || is_last))
      names.insert(text.substr(at, end - at));
    at = end;
  }
  return names;
}

}  // namespace gradsync::paper

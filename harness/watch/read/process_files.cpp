#include "harness/watch/read/process_files.h"

#include <algorithm>
#include <filesystem>

namespace gradsync::watch {

std::vector<std::string> files_with(const std::string& directory, std::string_view prefix,
                                    std::string_view suffix) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(suffix)) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace gradsync::watch

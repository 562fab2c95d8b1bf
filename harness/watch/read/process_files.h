// The files that the processes of a watched job left in its folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gradsync::watch {

// Returns the sorted paths of what lies in `directory` with names PREFIX...SUFFIX.
// Errors: std::filesystem::filesystem_error where it cannot be listed.
std::vector<std::string> files_with(const std::string& directory, std::string_view prefix,
                                    std::string_view suffix);

}  // namespace gradsync::watch

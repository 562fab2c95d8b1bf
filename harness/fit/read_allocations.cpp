#include "harness/fit/read_allocations.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "harness/base/errors.h"

namespace gradsync::fit {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find('\t', begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

template <typename Number>
Number number_of(const std::string& text) {
  Number value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The message as torch wrote it.
std::string unescaped(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      result += text[i];
      continue;
    }
    ++i;
    result += text[i] == 'n' ? '\n' : text[i];
  }
  return result;
}

// A line that a process could not end is passed over.
void read_line(const std::string& line, Allocations& allocations) {
  const std::vector<std::string> fields = fields_of(line);
  if (fields.size() == 6 && fields[0] == "site") {
    allocations.sites[number_of<std::uint32_t>(fields[1])] = {
        .module = number_of<std::uint64_t>(fields[2]),
        .line = number_of<int>(fields[3]),
        .function = fields[4],
        .file = fields[5]};
  } else if (fields.size() == 4 && fields[0] == "module") {
    allocations.modules[number_of<std::uint64_t>(fields[1])] = {fields[2], fields[3]};
  } else if (fields.size() == 2 && fields[0] == "oom") {
    allocations.out_of_memory = unescaped(fields[1]);
  }
}

void read_records(const std::string& path, Allocations& allocations) {
  AllocationHeader header{};
  if (!read_file(path, header, allocations.records)) {
    throw ConfigError(
        fmt::format("{}: expected a file of recorded allocations, which begins with {}", path,
                    std::string(kAllocationMagic, sizeof(kAllocationMagic))));
  }
  allocations.pid = header.pid;
  allocations.lost = header.records - std::ssize(allocations.records);
}

}  // namespace

std::vector<Allocations> read_allocations(const std::string& folder) {
  std::vector<Allocations> all;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kAllocationPrefix) || !name.ends_with(kAllocationSuffix)) continue;
    Allocations allocations;
    allocations.path = entry.path().string();
    read_records(allocations.path, allocations);
    std::ifstream names(fs::path(entry.path()).replace_extension(kNamesSuffix));
    for (std::string line; std::getline(names, line);) read_line(line, allocations);
    all.push_back(std::move(allocations));
  }
  std::ranges::sort(all, {}, &Allocations::pid);
  return all;
}

}  // namespace gradsync::fit

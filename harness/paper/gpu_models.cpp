#include "harness/paper/gpu_models.h"

#include <algorithm>
#include <charconv>

namespace gradsync::paper {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
constexpr std::uint64_t kPage = std::uint64_t{2}
                                << 20;  // the driver gives memory in pages of 2 MiB
constexpr int kMostGpus = 64;

template <typename Number>
bool read_number(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

bool same_name(std::string_view left, std::string_view right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? a + ('a' - 'A') : a) == b;
  });
}

std::string all_names() {
  std::string names;
  for (const GpuModel& model : gpu_models()) names += (names.empty() ? "" : ", ") + model.name;
  return names;
}

bool find_model(std::string_view name, GpuModel& found) {
  for (const GpuModel& model : gpu_models()) {
    if (!same_name(name, model.name)) continue;
    found = model;
    return true;
  }
  return false;
}

// "79GiB": an H100 with that memory.
bool read_memory(std::string_view text, GpuModel& model) {
  constexpr std::string_view kUnit = "GiB";
  if (!text.ends_with(kUnit)) return false;
  double gib = 0;
  if (!read_number(text.substr(0, text.size() - kUnit.size()), gib) || !(gib > 0)) return false;
  find_model("h100", model);
  model.product = "GPU of " + std::string(text);
  model.memory_gib = gib;
  return true;
}

}  // namespace

std::uint64_t Gpus::memory_bytes() const {
  return static_cast<std::uint64_t>(model.memory_gib * kGib) / kPage * kPage;
}

const std::vector<GpuModel>& gpu_models() {
  static const std::vector<GpuModel> models{
      {"v100-16", "Tesla V100-SXM2-16GB", 15.78, 7, 0, 80, 6},
      {"v100-32", "Tesla V100-SXM2-32GB", 31.74, 7, 0, 80, 6},
      {"t4", "Tesla T4", 14.74, 7, 5, 40, 4},
      {"a100-40", "NVIDIA A100-SXM4-40GB", 39.39, 8, 0, 108, 40},
      {"a100-80", "NVIDIA A100-SXM4-80GB", 79.15, 8, 0, 108, 40},
      {"a10g", "NVIDIA A10G", 22.07, 8, 6, 80, 6},
      {"rtx3090", "NVIDIA GeForce RTX 3090", 23.69, 8, 6, 82, 6},
      {"a6000", "NVIDIA RTX A6000", 47.54, 8, 6, 84, 6},
      {"l4", "NVIDIA L4", 22.03, 8, 9, 58, 48},
      {"rtx4090", "NVIDIA GeForce RTX 4090", 23.64, 8, 9, 128, 72},
      {"l40s", "NVIDIA L40S", 44.39, 8, 9, 142, 96},
      {"h100", "NVIDIA H100 80GB HBM3", 79.11, 9, 0, 132, 50},
      {"h200", "NVIDIA H200", 139.72, 9, 0, 132, 60},
      {"b200", "NVIDIA B200", 178.35, 10, 0, 148, 126},
  };
  return models;
}

ArchitectureLimits limits_of(const GpuModel& model) {
  switch (10 * model.major + model.minor) {
    case 70:
      return {2048, 32, 96, 96};
    case 75:
      return {1024, 16, 64, 64};
    case 80:
      return {2048, 32, 164, 163};
    case 86:
      return {1536, 16, 100, 99};
    case 89:
      return {1536, 24, 100, 99};
    default:
      return {2048, 32, 228, 227};  // 9.0 and 10.0
  }
}

Gpus parse_gpus(std::string_view text, std::string& wrong) {
  Gpus gpus{1, {}};
  std::string_view name = text;
  if (const std::size_t times = text.find('x');
      times != 0 && times != text.npos && read_number(text.substr(0, times), gpus.count)) {
    name = text.substr(times + 1);
  }
  const bool is_known = find_model(name, gpus.model) || read_memory(name, gpus.model);
  if (is_known && gpus.count >= 1 && gpus.count <= kMostGpus) return gpus;
  wrong = "GPUs '" + std::string(text) + "': expected a number up to " + std::to_string(kMostGpus) +
          " and a GPU, as in 8xh100 or 8x79GiB; GPUs are " + all_names();
  return {};
}

}  // namespace gradsync::paper

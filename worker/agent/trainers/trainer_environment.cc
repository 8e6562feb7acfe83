#include "worker/agent/trainers/trainer_environment.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace strata::worker {
namespace {

constexpr std::array<std::string_view, 12> kNames = {
    "PATH", "HOME",        "USER",         "LANG",          "TZ",           "TMPDIR",
    "TERM", "TEST_TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"};
constexpr std::array<std::string_view, 10> kPrefixes = {
    "LC_", "LD_", "STRATA_", "OMP_", "GOMP_", "DNNL_", "UCX_", "CUDA_", "NCCL_", "NVIDIA_"};

bool Passes(std::string_view name) {
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::vector<std::string> TrainerEnvironment(char** own, const std::vector<std::string>& instead) {
  const auto name_of = [](std::string_view variable) {
    return variable.substr(0, variable.find('='));
  };
  std::vector<std::string> passed = instead;
  for (char** at = own; at != nullptr && *at != nullptr; ++at) {
    const std::string_view name = name_of(*at);
    const bool replaced = std::any_of(instead.begin(), instead.end(), [&](const auto& variable) {
      return name_of(variable) == name;
    });
    if (Passes(name) && !replaced) passed.emplace_back(*at);
  }
  return passed;
}

}  // namespace strata::worker

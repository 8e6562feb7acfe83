#include "checkpoint/layout.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::checkpoint {
namespace {

// The number after `prefix` when the rest of `name` is exactly how `format` writes it.
template <typename Format>
std::optional<int64_t> NumberAfter(const std::string& prefix, const std::string& name,
                                   Format format) {
  int64_t number = 0;
  if (name.compare(0, prefix.size(), prefix) != 0) return std::nullopt;
  if (!absl::SimpleAtoi(name.substr(prefix.size()), &number)) return std::nullopt;
  if (number < 0 || format(number) != name) return std::nullopt;
  return number;
}

}  // namespace

std::string StepFolderName(int64_t step) { return absl::StrFormat("step-%08d", step); }
std::string EpochFolderName(int64_t epoch) { return absl::StrCat(".epoch-", epoch); }
std::string DeletingFolderName(int64_t step) {
  return absl::StrCat(".", StepFolderName(step), ".deleting");
}
bool IsDeletingFolderName(const std::string& name) {
  return absl::StartsWith(name, ".step-") && absl::EndsWith(name, ".deleting");
}
std::string DamagedFolderName(int64_t step, int count) {
  const std::string number = count == 1 ? "" : absl::StrCat(".", count);
  return absl::StrCat(".", StepFolderName(step), number, ".damaged");
}
bool IsDamagedFolderName(const std::string& name) {
  return absl::StartsWith(name, ".step-") && absl::EndsWith(name, ".damaged");
}
std::string RankFileName(int rank) { return absl::StrCat("rank-", rank, ".safetensors"); }

std::optional<int64_t> StepFromFolderName(const std::string& name) {
  return NumberAfter("step-", name, StepFolderName);
}
std::optional<int64_t> EpochFromFolderName(const std::string& name) {
  return NumberAfter(".epoch-", name, EpochFolderName);
}

}  // namespace strata::checkpoint

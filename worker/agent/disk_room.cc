#include "worker/agent/disk_room.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/units.h"

namespace strata::worker {
namespace {

constexpr int64_t kBytesPerParameter = 12;  // the f32 weight and AdamW's two moments

}  // namespace

std::optional<int64_t> FreeBytes(const std::string& directory) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(directory, error);
  if (error) return std::nullopt;
  return static_cast<int64_t>(space.available);
}

absl::Status CheckRoom(const v1::JobPlan& plan, const std::string& directory, int64_t free_bytes) {
  const int64_t needed = plan.parameters() * kBytesPerParameter;
  if (needed <= free_bytes) return absl::OkStatus();
  const auto text = [](int64_t bytes) { return common::FormatBytes(static_cast<double>(bytes)); };
  return absl::ResourceExhaustedError(
      absl::StrCat(directory, ": a checkpoint takes ", text(needed), ", but ", text(free_bytes),
                   " are free there — make room, or choose another directory"));
}

}  // namespace strata::worker

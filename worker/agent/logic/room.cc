#include "worker/agent/logic/room.h"

#include "absl/strings/str_cat.h"
#include "common/units.h"

namespace strata::worker {
namespace {

constexpr int64_t kBytesPerParameter = 12;  // the f32 weight and AdamW's two moments

}  // namespace

absl::Status CheckRoom(const v1::JobPlan& plan, const std::string& directory, int64_t free_bytes) {
  const int64_t needed = plan.parameters() * kBytesPerParameter;
  if (needed <= free_bytes) return absl::OkStatus();
  const auto text = [](int64_t bytes) { return common::FormatBytes(static_cast<double>(bytes)); };
  return absl::ResourceExhaustedError(
      absl::StrCat(directory, ": a checkpoint takes ", text(needed), ", but ", text(free_bytes),
                   " are free there — make room, or choose another directory"));
}

absl::Status CheckMemory(const v1::JobPlan& plan, int ranks, int64_t memory_bytes,
                         absl::string_view whose) {
  for (const v1::TierBytes& tier : plan.predicted()) {
    const double needed = static_cast<double>(tier.bytes()) * ranks;
    if (tier.tier() != "host" || needed <= static_cast<double>(memory_bytes)) continue;
    const auto text = [](double bytes) { return common::FormatBytes(bytes); };
    return absl::ResourceExhaustedError(
        absl::StrCat("does not fit: ", ranks, ranks == 1 ? " rank x " : " ranks x ",
                     text(static_cast<double>(tier.bytes())), " of host memory = ", text(needed),
                     ", but ", whose, " ", text(static_cast<double>(memory_bytes)),
                     " — make train.micro_batch, train.sequence or the model smaller"));
  }
  return absl::OkStatus();
}

}  // namespace strata::worker

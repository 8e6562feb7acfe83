#include "worker/agent/logic/room.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "protocol/predicted_memory.h"

namespace strata::worker {
namespace {

constexpr int64_t kBytesPerParameter = 12;  // the f32 weight and AdamW's two moments

int64_t HostBytesOf(const v1::JobPlan& plan, int rank, bool on_cpu) {
  int64_t bytes = 0;
  for (const v1::TierBytes& tier : protocol::PredictedOf(plan, rank)) {
    if (tier.tier() == "host" || (on_cpu && tier.tier() == "device")) bytes += tier.bytes();
  }
  return bytes;
}

}  // namespace

absl::Status CheckRoom(const v1::JobPlan& plan, const std::string& directory, int64_t free_bytes) {
  const int64_t needed = plan.parameters() * kBytesPerParameter;
  if (needed <= free_bytes) return absl::OkStatus();
  const auto text = [](int64_t bytes) { return common::FormatBytes(static_cast<double>(bytes)); };
  return absl::ResourceExhaustedError(
      absl::StrCat(directory, ": a checkpoint takes ", text(needed), ", but ", text(free_bytes),
                   " are free there — make room, or choose another directory"));
}

absl::Status CheckMemory(const v1::JobPlan& plan, const std::vector<int>& ranks,
                         absl::string_view device, int64_t memory_bytes, absl::string_view whose) {
  const bool on_cpu = device.empty() || device == "cpu";
  std::vector<int64_t> needs;
  for (const int rank : ranks) needs.push_back(HostBytesOf(plan, rank, on_cpu));
  const double needed = std::accumulate(needs.begin(), needs.end(), 0.0);
  if (needs.empty() || needed <= static_cast<double>(memory_bytes)) return absl::OkStatus();
  const auto text = [](double bytes) { return common::FormatBytes(bytes); };
  const auto [least, most] = std::minmax_element(needs.begin(), needs.end());
  const std::string each = text(static_cast<double>(*most));
  return absl::ResourceExhaustedError(absl::StrCat(
      "does not fit: ", needs.size(), needs.size() == 1 ? " rank x " : " ranks x ",
      *least == *most ? each : absl::StrCat(text(static_cast<double>(*least)), " to ", each),
      " of host memory = ", text(needed), ", but ", whose, " ",
      text(static_cast<double>(memory_bytes)),
      " — make train.micro_batch, train.sequence or the model smaller"));
}

}  // namespace strata::worker

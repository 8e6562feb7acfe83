#include "worker/engine/ssd_tier.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "memory/numa.h"

namespace strata::worker {
namespace {

static_assert(static_cast<int>(program::Stream::kCaller) == program::kStreamCount);

using memory::SsdExtent;
using program::Stream;

// Ranges overlap where slots take turns at a place. The store's extents are the pieces between any
// two neighbouring borders, so that each range is a row of them.
std::vector<SsdExtent> Pieces(const std::vector<SsdExtent>& ranges) {
  std::map<int64_t, int64_t> open;  // by border: ranges that begin there less those that end
  for (const SsdExtent& range : ranges) {
    ++open[range.offset];
    --open[range.offset + range.bytes];
  }
  std::vector<SsdExtent> pieces;
  int64_t covering = 0, begin = 0;
  for (const auto& [border, change] : open) {
    if (covering > 0) pieces.push_back({begin, border - begin});
    covering += change;
    begin = border;
  }
  return pieces;
}

}  // namespace

absl::Status AsFailure(const absl::Status& status) {
  return absl::IsDataLoss(status) ? absl::InternalError(status.message()) : status;
}

int SsdTier::HostNode() const {
  const memory::NumaNodes nodes;
  const int node = options_.paths.empty() ? -1 : nodes.OfDisk(options_.paths[0].directory);
  return node >= 0 ? node : nodes.OfThread();
}

void SsdTier::Use(int64_t offset, int64_t bytes) {
  if (bytes == 0) return;
  ranges_.push_back({offset, common::RoundUp(bytes, memory::kSsdBlockBytes)});
}

absl::Status SsdTier::Open(const std::array<bool, program::kStreamCount>& used) {
  if (options_.paths.empty()) {
    return absl::InvalidArgumentError("the programs keep bytes on SSD, and no path was given");
  }
  ASSIGN_OR_RETURN(store_, memory::SsdStore::Create(options_, Pieces(ranges_)));
  ranges_ = {};
  for (int stream = 0; stream < program::kStreamCount; ++stream) {
    if (used[stream]) queues_[stream] = store_->OpenQueue();
  }
  queues_.back() = store_->OpenQueue();
  return absl::OkStatus();
}

void SsdTier::EndStep(double seconds, double stalled) {
  if (store_ == nullptr) return;
  // What loads and checkpoints move between steps does not count.
  const memory::IoCounters io = store_->io();
  const int64_t written = io.bytes[static_cast<int>(memory::SsdClass::kStateWrite)];
  // A disk that is slow is not the pace's fault.
  stalled = std::min(stalled, io.paced_seconds - paced_seconds_);
  store_->SetWriteRate(pacer_.EndStep(written - written_, seconds, stalled));
  written_ = written;
  paced_seconds_ = io.paced_seconds;
}

absl::Status SsdTier::Read(Stream stream, memory::SsdClass request_class, int64_t offset,
                           absl::Span<std::byte> memory) {
  return AsFailure(queue(stream).Read(request_class, offset, memory));
}

absl::Status SsdTier::Write(Stream stream, memory::SsdClass request_class, int64_t offset,
                            absl::Span<const std::byte> memory) {
  return AsFailure(queue(stream).Write(request_class, offset, memory));
}

}  // namespace strata::worker

// The SSD tier of one engine: what its programs read and write there, and who moves it.
//
// Slots on SSD have addresses like others, at which nothing lies (AddressMap reserves them): an
// address names a place in the tier. Transfers to and from it are calls that block their lane.
#ifndef STRATA_WORKER_ENGINE_SSD_TIER_H_
#define STRATA_WORKER_ENGINE_SSD_TIER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "memory/ssd/ssd_store.h"
#include "memory/ssd/write_pacer.h"
#include "program/ir/types.h"

namespace strata::worker {

// A disk that fails ends the job, but no file of the user's is damaged, as DataLoss would say.
absl::Status AsFailure(const absl::Status& status);

class SsdTier {
 public:
  explicit SsdTier(memory::SsdOptions options) : options_(std::move(options)) {}

  // The NUMA node where host memory that bytes on SSD pass through belongs: its first disk's, else
  // the calling thread's; -1: the machine has one.
  int HostNode() const;

  // ---- While programs are bound: ranges that are read or written whole. They begin at blocks, and
  // have their last one to themselves.
  void Use(int64_t offset, int64_t bytes);

  // Once, when all are known: makes the files. `used`: streams that transfers are on. Errors: the
  // store's; InvalidArgument: no path was given.
  absl::Status Open(const std::array<bool, program::kStreamCount>& used);

  // Ranges named by Use, or what such make up. On the stream's lane; kCaller: between steps, on the
  // thread that runs them. `memory` begins at a block's address.
  absl::Status Read(program::Stream stream, memory::SsdClass request_class, int64_t offset,
                    absl::Span<std::byte> memory);
  absl::Status Write(program::Stream stream, memory::SsdClass request_class, int64_t offset,
                     absl::Span<const std::byte> memory);

  // What a range that was named is cut into.
  std::vector<memory::SsdExtent> ExtentsOf(int64_t offset, int64_t bytes) const {
    return store_->ExtentsOf(offset, bytes);
  }
  // For a thread beside the lanes.
  std::unique_ptr<memory::SsdQueue> OpenQueue() { return store_->OpenQueue(); }
  // Null: the programs keep nothing on SSD.
  memory::SsdStore* store() const { return store_.get(); }

  // Sets the pace of the next step's writes, between steps. `stalled`: of the step's seconds, those
  // that the computation waited for writes.
  void EndStep(double seconds, double stalled);

 private:
  memory::SsdQueue& queue(program::Stream stream) { return *queues_[static_cast<int>(stream)]; }

  const memory::SsdOptions options_;
  std::vector<memory::SsdExtent> ranges_;
  std::unique_ptr<memory::SsdStore> store_;
  memory::WritePacer pacer_;
  // When the last step ended:
  int64_t written_ = 0;
  double paced_seconds_ = 0;
  // By stream, kCaller behind them.
  std::array<std::unique_ptr<memory::SsdQueue>, program::kStreamCount + 1> queues_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_SSD_TIER_H_

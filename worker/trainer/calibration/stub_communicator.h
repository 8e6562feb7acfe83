// A communicator whose operations can be left out: what a step would take if communication took
// none.
#ifndef STRATA_WORKER_TRAINER_CALIBRATION_STUB_COMMUNICATOR_H_
#define STRATA_WORKER_TRAINER_CALIBRATION_STUB_COMMUNICATOR_H_

#include <atomic>

#include "collectives/communicator.h"

namespace strata::worker {

// Passes everything on to another communicator; while stubbed, operations end at once and move
// nothing, so what they should have written keeps whatever stood there.
class StubCommunicator final : public collectives::Communicator {
 public:
  explicit StubCommunicator(collectives::Communicator* real) : real_(real) {}

  // While no operation is in flight. From any thread.
  void SetStubbed(bool stubbed) { stubbed_.store(stubbed, std::memory_order_release); }

  int rank() const override { return real_->rank(); }
  int size() const override { return real_->size(); }
  absl::StatusOr<collectives::GroupId> CreateGroup(absl::Span<const int> world_ranks) override {
    return real_->CreateGroup(world_ranks);
  }
  int GroupSize(collectives::GroupId group) const override { return real_->GroupSize(group); }
  int GroupIndex(collectives::GroupId group) const override { return real_->GroupIndex(group); }
  absl::StatusOr<collectives::OperationId> Post(const collectives::Operation& operation) override;
  bool Progress() override;
  absl::StatusOr<bool> Test(collectives::OperationId id) override;
  void Wait(absl::Duration timeout) override { real_->Wait(timeout); }
  void Wake() override { real_->Wake(); }
  void Cancel(absl::Status status) override { real_->Cancel(std::move(status)); }
  void SetRing(collectives::OperationRing* ring) override { real_->SetRing(ring); }

 private:
  collectives::Communicator* const real_;
  std::atomic<bool> stubbed_ = false;
  bool ended_ = false;  // an operation, since the last Progress; of the thread that posts
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CALIBRATION_STUB_COMMUNICATOR_H_

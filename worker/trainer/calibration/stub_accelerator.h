// An accelerator whose communication is left out, and whose actions go one by one.
#ifndef STRATA_WORKER_TRAINER_CALIBRATION_STUB_ACCELERATOR_H_
#define STRATA_WORKER_TRAINER_CALIBRATION_STUB_ACCELERATOR_H_

#include <string>

#include "worker/engine/accelerator.h"

namespace strata::worker {

// Computes as another one does. Groups are of any ranks, of which this is one: their operations
// take no time and move nothing, so that one device measures what a rank of several computes. No
// graphs, in which no action would have a time.
class StubAccelerator final : public Accelerator {
 public:
  // Borrowed.
  explicit StubAccelerator(Accelerator* real) : real_(real) {}

  device::QueueDevice& device() override { return real_->device(); }
  device::UnifiedMemory& unified() override { return real_->unified(); }
  std::string Remark() const override { return real_->Remark(); }
  absl::StatusOr<BoundOp> BindOp(const program::Op& op, absl::Span<const BoundOperand> operands,
                                 const OpEnvironment& environment,
                                 const LaunchSite& site) override {
    return real_->BindOp(op, operands, environment, site);
  }
  bool Joins(program::OpKind first, program::OpKind second) const override {
    return real_->Joins(first, second);
  }
  BoundOp BindJoined(const OpCall& first, const OpCall& second, const OpEnvironment& environment,
                     const LaunchSite& site) override {
    return real_->BindJoined(first, second, environment, site);
  }
  bool communicates() const override { return true; }
  absl::StatusOr<collectives::GroupId> CreateGroup(absl::Span<const int>) override {
    return collectives::GroupId{groups_++};
  }
  absl::StatusOr<BoundOp> BindOperation(const collectives::Operation&, const LaunchSite&) override {
    return BoundOp([] { return absl::OkStatus(); });
  }
  absl::Status CheckCommunication() override { return absl::OkStatus(); }
  void AbortCommunication(absl::Status) override {}
  absl::Status CloseCommunication(absl::Duration) override { return absl::OkStatus(); }
  absl::StatusOr<BoundOp> BindCopy(std::byte* to, const std::byte* from, int64_t bytes,
                                   const LaunchSite& site) override {
    return real_->BindCopy(to, from, bytes, site);
  }

 private:
  Accelerator* const real_;
  int groups_ = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CALIBRATION_STUB_ACCELERATOR_H_

#include "worker/trainer/calibration/stub_communicator.h"

#include <limits>
#include <utility>

namespace strata::worker {
namespace {

// No communicator has as many slots.
constexpr collectives::OperationId kStub{.slot = std::numeric_limits<uint32_t>::max()};

}  // namespace

absl::StatusOr<collectives::OperationId> StubCommunicator::Post(
    const collectives::Operation& operation) {
  if (!stubbed_.load(std::memory_order_acquire)) return real_->Post(operation);
  ended_ = true;
  return kStub;
}

bool StubCommunicator::Progress() {
  const bool ended = std::exchange(ended_, false);
  return real_->Progress() || ended;
}

absl::StatusOr<bool> StubCommunicator::Test(collectives::OperationId id) {
  if (id == kStub) return true;
  return real_->Test(id);
}

}  // namespace strata::worker

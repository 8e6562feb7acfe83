#include "worker/engine/cuda/order_watch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "device/standin/order.h"
#include "device/standin/testing/cuda_test.h"

namespace strata::worker {

void OrderWatch::Bound(const IssuedAction& what, std::string description,
                       std::vector<BoundAccess> accesses) {
  descriptions_[{what.program, what.action}] = std::move(description);
  accesses_[{what.program, what.action, what.variant}] = std::move(accesses);
}

void OrderWatch::Issue(const IssuedAction& what, device::Stream& stream) {
  if (before) before(what, stream);
  standin::SetLabel(LabelOf(what.program, what.action), what.step);
  lane_ = dynamic_cast<const device::LaneStream*>(&stream);
  if (lane_ == nullptr) return;
  // The lane runs the action when its follower has come to what it waits for.
  const cudaStream_t thread = ThreadOf(lane_);
  standin::DeclareHostWait(thread, lane_->follower());
  for (const BoundAccess& access : AccessesOf(what.program, what.action, what.variant)) {
    standin::DeclareHostAccess(thread, access.data, access.bytes, access.writes);
  }
}

void OrderWatch::Issued() {
  standin::SetLabel("", 0);
  if (lane_ == nullptr) return;
  standin::DeclareHostValue(ThreadOf(lane_), lane_->ended(), lane_->issued());
  lane_ = nullptr;
}

std::string OrderWatch::LabelOf(int program, int action) const {
  return absl::StrCat(who_, "program ", program, ", ", descriptions_.at({program, action}));
}

int OrderWatch::actions(int program) const {
  return static_cast<int>(
      std::count_if(descriptions_.begin(), descriptions_.end(),
                    [&](const auto& entry) { return entry.first.first == program; }));
}

cudaStream_t OrderWatch::ThreadOf(const device::LaneStream* lane) {
  cudaStream_t& thread = threads_[lane];
  if (thread == nullptr) {
    STRATA_EXPECT_CUDA(cudaStreamCreateWithFlags(&thread, cudaStreamNonBlocking));
  }
  return thread;
}

}  // namespace strata::worker

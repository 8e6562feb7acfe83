// Tells the stand-in's checker what an engine issues: each operation is named after its action, and
// what lanes read and write has its place in the order of streams.
#ifndef STRATA_WORKER_ENGINE_CUDA_ORDER_WATCH_H_
#define STRATA_WORKER_ENGINE_CUDA_ORDER_WATCH_H_

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "device/cuda/lane_stream.h"
#include "worker/engine/issue_observer.h"

namespace strata::worker {

class OrderWatch final : public IssueObserver {
 public:
  // `who` begins the label of every action: "rank 1, ".
  explicit OrderWatch(std::string who = "") : who_(std::move(who)) {}

  void Bound(const IssuedAction& what, std::string description,
             std::vector<BoundAccess> accesses) override;
  void Issue(const IssuedAction& what, device::Stream& stream) override;
  void Issued() override;

  // "rank 1, program 0, instruction 12 (forward block 3), op 4 (matmul)".
  std::string LabelOf(int program, int action) const;
  // Of an action, all that it uses.
  const std::vector<BoundAccess>& AccessesOf(int program, int action, int64_t variant) const {
    return accesses_.at({program, action, variant});
  }
  int actions(int program) const;

  // May be null: called before an action is issued, for mistakes.
  std::function<void(const IssuedAction&, device::Stream&)> before;

 private:
  // In the place of a lane's thread.
  cudaStream_t ThreadOf(const device::LaneStream* lane);

  const std::string who_;
  std::map<std::pair<int, int>, std::string> descriptions_;  // by program and action
  std::map<std::tuple<int, int, int64_t>, std::vector<BoundAccess>> accesses_;  // and variant
  std::map<const device::LaneStream*, cudaStream_t> threads_;
  const device::LaneStream* lane_ = nullptr;  // of the action being issued; null: a queue's
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_CUDA_ORDER_WATCH_H_

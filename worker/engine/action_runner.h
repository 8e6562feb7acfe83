// What lanes call, in stream order: one action of one step.
#ifndef STRATA_WORKER_ENGINE_ACTION_RUNNER_H_
#define STRATA_WORKER_ENGINE_ACTION_RUNNER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "device/cpu_device.h"
#include "worker/engine/bound_program.h"
#include "worker/engine/run_state.h"

namespace strata::worker {

// Actions are named by a code: the action's index, and the parity of the step, of which at most two
// are under way. An action that fails ends the engine; it and all later ones then pass without
// effect, so that streams drain.
class ActionRunner {
 public:
  // "instruction 17 (reduce block 3)": where an error came from.
  using Description = std::function<std::string(int program, int action)>;

  // `state` and `communicator` (may be null) are borrowed.
  ActionRunner(RunState* state, collectives::Communicator* communicator, Description describe)
      : state_(state), communicator_(communicator), describe_(std::move(describe)) {}

  // ---- The issuing thread, with nothing under way.
  // Once, before the first run: the most end times of any program.
  void Reserve(int end_times) { end_times_ = std::vector<std::atomic<double>>(end_times); }
  void BeginRun(int index, const BoundProgram* program);

  // ---- The issuing thread. `step`: of the run; `traced_step`: of the program; `applied`: updates
  // before it.
  void BeginStep(int64_t step, int64_t traced_step, int64_t applied, double now);
  static int64_t Code(int action, int64_t step) { return int64_t{action} * 2 + step % 2; }
  const BoundWork& WorkOf(int64_t code) const {
    return program_->works[code / 2 * program_->variants + steps_[code % 2].variant];
  }
  int64_t variant(int64_t step) const { return steps_[step % 2].variant; }
  device::HostFunction RunOp(int64_t code) { return {&Call<&ActionRunner::Run>, this, code}; }
  device::HostFunction BeginCopy(int64_t code) { return {&Call<&ActionRunner::Start>, this, code}; }
  device::HostFunction EndCopy(int64_t code) { return {&Call<&ActionRunner::Stop>, this, code}; }
  device::PolledFunction Communicate(int64_t code) {
    return {[](void* self, int64_t value) { return static_cast<ActionRunner*>(self)->Poll(value); },
            this, code};
  }

  int64_t bytes() const { return static_cast<int64_t>(end_times_.size() * sizeof(double)); }

  // Counts as exposed what the stream's last action, which has ended, took beyond compute's last.
  void CountTail(int stream);
  // Of the compute stream since BeginStep, by purpose; the issuing thread serves it.
  const StepMetrics::ByPurpose& compute() const { return compute_; }
  const StepMetrics::ByPurpose& exposed() const { return exposed_; }
  const StepMetrics::ByStream& stalled() const { return stalled_; }

 private:
  struct Step {
    int64_t variant = 0;
    int64_t traced = 0;
  };

  template <void (ActionRunner::*Method)(int64_t)>
  static void Call(void* self, int64_t code) {
    (static_cast<ActionRunner*>(self)->*Method)(code);
  }
  void Run(int64_t code);
  void Start(int64_t code);
  void Stop(int64_t code);
  bool Poll(int64_t code);

  const BoundAction& At(int64_t code) const { return program_->actions[code / 2]; }
  bool TakesPlace(const BoundAction& action) const {
    return !state_->failed() && program_->TakesPlace(action);
  }
  void Begin(int64_t code);
  void Finish(int64_t code);
  // It does not take place.
  void Skip(int64_t code);
  // It is over, whether it took place or not.
  void Pass(const BoundAction& action);
  void Fail(int64_t code, const absl::Status& status);
  void CountExposed(const BoundAction& action);
  // Shares what compute stood for an action, from `from` until it ended at `to`, among streams.
  void CountStall(int action, double from, double to);

  RunState* const state_;
  collectives::Communicator* const communicator_;
  const Description describe_;

  int index_ = -1;
  const BoundProgram* program_ = nullptr;
  std::array<Step, 2> steps_;
  // When the actions that others wait for have ended.
  std::vector<std::atomic<double>> end_times_;
  // Of each stream's last action that took place.
  std::array<std::atomic<double>, program::kStreamCount> last_ends_{};
  // Of the action that each stream's lane is at.
  std::array<double, program::kStreamCount> begin_{};
  std::array<std::optional<collectives::OperationId>, program::kStreamCount> in_flight_;

  // Compute only.
  double free_since_ = 0;
  StepMetrics::ByPurpose compute_{}, exposed_{};
  StepMetrics::ByStream stalled_{};
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_ACTION_RUNNER_H_

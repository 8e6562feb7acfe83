// Hands a device's queues their actions: one by one, or rows of them as graphs.
#ifndef STRATA_WORKER_ENGINE_QUEUE_ISSUER_H_
#define STRATA_WORKER_ENGINE_QUEUE_ISSUER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/queue_device.h"
#include "worker/engine/action_runner.h"
#include "worker/engine/bound_program.h"
#include "worker/engine/issue_observer.h"
#include "worker/engine/run_state.h"

namespace strata::worker {

// A row is a part of the compute stream within which it neither waits nor is waited for: only the
// row's first action waits, only its last has an event. So what a graph holds has no edge but the
// stream's order, and what orders streams stays outside, as without graphs: no order is lost or
// added, and nothing that grows from step to step is kept in one. A program's first step goes
// action by action, so that kernels are loaded; a row's first step of each variant after that is
// captured.
class QueueIssuer {
 public:
  using Description = ActionRunner::Description;

  // Rows of at least `graph_actions` are graphs; 0: none. Pointers are borrowed; `observer` may be
  // null.
  QueueIssuer(RunState* state, const ActionRunner* runner, IssueObserver* observer,
              int graph_actions, Description describe)
      : state_(state),
        runner_(runner),
        observer_(observer),
        graph_actions_(graph_actions),
        describe_(std::move(describe)) {}

  // Before a run's first step, with nothing under way.
  void BeginRun(int index, const BoundProgram* program);
  // `step`: of the run. `is_first`: of the program, ever.
  void BeginStep(int64_t step, bool is_first);
  // In list order, after what the action waits for.
  absl::Status Issue(int action, device::QueueStream& queue);

 private:
  // Of the compute stream's actions: [begin, end).
  struct Row {
    int32_t begin = 0, end = 0;
    std::vector<std::unique_ptr<device::QueueGraph>> graphs;  // by variant; null: not captured
  };
  struct Rows {
    bool is_known = false;
    std::vector<Row> rows;
    std::vector<int32_t> row_of;  // by place on the stream; -1: none
  };

  Rows FindRows() const;
  absl::Status IssueOne(int action, device::QueueStream& queue);
  absl::Status IssueRow(Row& row, device::QueueStream& queue);
  absl::StatusOr<std::unique_ptr<device::QueueGraph>> Capture(const Row& row,
                                                              device::QueueStream& queue);
  absl::Status OfRow(const Row& row, const absl::Status& status) const;
  void Observe(int action, device::QueueStream& queue);

  RunState* const state_;
  const ActionRunner* const runner_;
  IssueObserver* const observer_;
  const int graph_actions_;
  const Description describe_;

  int index_ = -1;
  const BoundProgram* program_ = nullptr;
  std::vector<Rows> rows_;  // by program
  int64_t step_ = 0;
  bool with_graphs_ = false;  // in this step
  size_t place_ = 0;          // on the compute stream: of the next action
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_QUEUE_ISSUER_H_

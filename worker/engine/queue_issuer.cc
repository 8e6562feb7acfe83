#include "worker/engine/queue_issuer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::worker {
namespace {

constexpr int kCompute = static_cast<int>(program::Stream::kCompute);

}  // namespace

void QueueIssuer::BeginRun(int index, const BoundProgram* program) {
  index_ = index;
  program_ = program;
  if (graph_actions_ == 0) return;
  if (static_cast<int>(rows_.size()) <= index) rows_.resize(index + 1);
  if (!rows_[index].is_known) rows_[index] = FindRows();
}

QueueIssuer::Rows QueueIssuer::FindRows() const {
  const std::vector<int32_t>& stream = program_->streams[kCompute];
  const int32_t size = static_cast<int32_t>(stream.size());
  Rows found{.is_known = true, .rows = {}, .row_of = std::vector<int32_t>(size, -1)};
  int32_t begin = 0;
  for (int32_t at = 0; at < size; ++at) {
    const bool ends = at + 1 == size || program_->actions[stream[at]].event >= 0 ||
                      program_->actions[stream[at + 1]].dependencies > 0;
    if (!ends) continue;
    const int32_t end = at + 1;
    if (end - begin >= graph_actions_) {
      for (int32_t of = begin; of < end; ++of) {
        found.row_of[of] = static_cast<int32_t>(found.rows.size());
      }
      found.rows.push_back({begin, end, {}});
      found.rows.back().graphs.resize(program_->variants);
    }
    begin = end;
  }
  return found;
}

void QueueIssuer::BeginStep(int64_t step, bool is_first) {
  step_ = step;
  with_graphs_ = graph_actions_ > 0 && !is_first;
  place_ = 0;
}

absl::Status QueueIssuer::Issue(int action, device::QueueStream& queue) {
  const BoundAction& of = program_->actions[action];
  int32_t row = -1;
  if (with_graphs_ && of.stream == kCompute) row = rows_[index_].row_of[place_++];
  if (row >= 0) {
    Row& whole = rows_[index_].rows[row];
    // Launched where it ends: nothing waits for it before, and it waits for nothing after.
    if (program_->streams[kCompute][whole.end - 1] != action) return absl::OkStatus();
    RETURN_IF_ERROR(IssueRow(whole, queue));
    return queue.Count(state_->CountOf(of.stream));
  }
  Observe(action, queue);
  RETURN_IF_ERROR(IssueOne(action, queue));
  if (observer_ != nullptr) observer_->Issued();
  // Counted are whole instructions, for onlookers: between kernels a count costs its time.
  const size_t next = action + 1;
  const bool last =
      next == program_->actions.size() || program_->actions[next].instruction != of.instruction;
  return last ? queue.Count(state_->CountOf(of.stream)) : absl::OkStatus();
}

absl::Status QueueIssuer::IssueOne(int action, device::QueueStream& queue) {
  const BoundWork work = runner_->WorkOf(ActionRunner::Code(action, step_));
  absl::Status status;
  if (work.kind == BoundWork::kOp) {
    status = program_->ops[work.index]();
  } else {
    const BoundCopy& copy = program_->copies[work.index];
    status = queue.Copy(copy.to, copy.from, copy.bytes);
  }
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(describe_(index_, action), ": ", status.message()));
}

absl::Status QueueIssuer::IssueRow(Row& row, device::QueueStream& queue) {
  std::unique_ptr<device::QueueGraph>& graph = row.graphs[runner_->variant(step_)];
  if (graph == nullptr) {
    ASSIGN_OR_RETURN(graph, Capture(row, queue));
  }
  Observe(program_->streams[kCompute][row.end - 1], queue);
  const absl::Status status = queue.LaunchGraph(*graph);
  if (observer_ != nullptr) observer_->Issued();
  return OfRow(row, status);
}

absl::StatusOr<std::unique_ptr<device::QueueGraph>> QueueIssuer::Capture(
    const Row& row, device::QueueStream& queue) {
  RETURN_IF_ERROR(OfRow(row, queue.BeginCapture()));
  absl::Status status;
  for (int32_t at = row.begin; at < row.end && status.ok(); ++at) {
    const int action = program_->streams[kCompute][at];
    Observe(action, queue);
    status = IssueOne(action, queue);
    if (observer_ != nullptr) observer_->Issued();
  }
  // In any case: the stream would go on recording.
  absl::StatusOr<std::unique_ptr<device::QueueGraph>> graph = queue.EndCapture();
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(OfRow(row, graph.status()));
  return graph;
}

absl::Status QueueIssuer::OfRow(const Row& row, const absl::Status& status) const {
  if (status.ok()) return status;
  const std::vector<int32_t>& stream = program_->streams[kCompute];
  return absl::Status(status.code(), absl::StrCat(describe_(index_, stream[row.begin]), " to ",
                                                  describe_(index_, stream[row.end - 1]),
                                                  ", as a graph: ", status.message(),
                                                  "; without graphs they go one by one"));
}

void QueueIssuer::Observe(int action, device::QueueStream& queue) {
  if (observer_ == nullptr) return;
  observer_->Issue({index_, action, runner_->variant(step_), step_}, queue);
}

}  // namespace strata::worker

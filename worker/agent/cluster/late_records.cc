#include "worker/agent/cluster/late_records.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "common/status_macros.h"

namespace strata::worker {
namespace {

constexpr double kMomentSeconds = 0.02;

}  // namespace

struct LateRecords::State {
  explicit State(std::shared_ptr<MetricsFiles> of, int64_t step)
      : files(std::move(of)), written(step) {}
  const std::shared_ptr<MetricsFiles> files;  // the work's
  std::mutex mutex;                           // guards what follows
  absl::Status status;                        // of the work so far
  int64_t written;                            // steps up to this one are in the files,
  int64_t synced = -1;                        // up to this one for good,
  int64_t syncing = -1;                       // up to this one soon
};

LateRecords::LateRecords(FileWork* work, std::shared_ptr<MetricsFiles> files, int64_t written)
    : work_(work), state_(std::make_shared<State>(std::move(files), written)) {}

absl::Status LateRecords::Append(const v1::StepRecord& record) {
  work_->Do([state = state_, record] {
    {
      const std::lock_guard lock(state->mutex);
      if (!state->status.ok()) return;  // no gaps
    }
    absl::Status status = state->files->Append(record);
    const std::lock_guard lock(state->mutex);
    if (status.ok()) state->written = record.step();
    state->status = std::move(status);
  });
  return absl::OkStatus();
}

absl::StatusOr<int64_t> LateRecords::Written() {
  work_->Settle(kMomentSeconds);
  const std::lock_guard lock(state_->mutex);
  RETURN_IF_ERROR(state_->status);
  return state_->written;
}

absl::StatusOr<bool> LateRecords::Sync(int64_t step) {
  bool asks = false;
  {
    const std::lock_guard lock(state_->mutex);
    asks = step > state_->syncing;
    if (asks) state_->syncing = std::max(step, state_->written);
  }
  if (asks) {
    work_->Do([state = state_] {
      int64_t step = 0;
      {
        const std::lock_guard lock(state->mutex);
        step = state->written;
      }
      absl::Status status = state->files->Sync();
      const std::lock_guard lock(state->mutex);
      if (status.ok()) state->synced = std::max(state->synced, step);
      if (state->status.ok()) state->status = std::move(status);
    });
  }
  work_->Settle(kMomentSeconds);
  const std::lock_guard lock(state_->mutex);
  RETURN_IF_ERROR(state_->status);
  return state_->synced >= step;
}

}  // namespace strata::worker

#include "protocol/task_event.h"

namespace strata::protocol {

std::optional<v1::StandaloneEvent> TaskEventOf(const v1::JobProgress& progress) {
  v1::StandaloneEvent event;
  switch (progress.progress_case()) {
    case v1::JobProgress::kStep:
      *event.mutable_step() = progress.step();
      return event;
    case v1::JobProgress::kEvaluation:
      *event.mutable_evaluation() = progress.evaluation();
      return event;
    case v1::JobProgress::kCheckpoint:
      *event.mutable_checkpoint() = progress.checkpoint();
      return event;
    case v1::JobProgress::kNotice:
      *event.mutable_notice() = progress.notice();
      return event;
    case v1::JobProgress::kJob:
    case v1::JobProgress::PROGRESS_NOT_SET:
      break;
  }
  return std::nullopt;
}

}  // namespace strata::protocol

// The half of the job machine that deals with checkpoints that cannot be read. A damaged one is no
// fault of the job: it goes on from the one before, and its budget is not touched. What the storage
// failed to read may pass, so the job waits for it as for anything that a node lacks; but a bad
// sector says the same for ever, so after that, and a few starts in a row, it is taken for damage.
// Such a start counts: storage that is away for long ends the job before all is given up.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/logic/job_machine.h"
#include "controller/logic/names.h"

namespace strata::controller {
namespace {

constexpr char kDamaged[] = "checkpoint_damaged";
constexpr char kUnreadable[] = "checkpoint_unreadable";
constexpr int kMostUnreadable = 3;  // starts in a row
// Of the last events: storage that damages more than that is not to be trained on.
constexpr int kMostDamaged = 16;

// The last ends of its ranks, in a row, that had this cause. No other checkpoint was meant: between
// two of them stands a start that succeeded, and how that ended.
int InARow(const v1::JobRecord& job, const char* cause) {
  int count = 0;
  for (int i = job.events_size() - 1; i >= 0 && job.events(i).cause() == cause; --i) ++count;
  return count;
}

int64_t Count(const v1::JobRecord& job, const char* cause) {
  return std::count_if(job.events().begin(), job.events().end(),
                       [&](const v1::JobEvent& event) { return event.cause() == cause; });
}

}  // namespace

void JobMachine::JudgeCheckpoint(JobEntry& job, Failure& failure) {
  if (!failure.checkpoint.has_value()) return;
  const v1::CheckpointProblem& problem = *failure.checkpoint;
  v1::JobRecord& record = job.record;
  const v1::CommittedCheckpoint& recorded = record.checkpoint();
  if (recorded.epoch() != problem.epoch() || recorded.step() != problem.step()) return;
  const std::string where =
      failure.node.empty() ? "" : absl::StrCat(" (found on ", ShortName(failure.node), ")");
  failure.cause = kUnreadable;
  failure.refused = failure.refused || problem.may_pass();
  const bool waited =
      job.refused_at.has_value() && state_.now > *job.refused_at + state_.timing.refused_seconds;
  const int tries = InARow(record, kUnreadable) + 1;
  if (problem.may_pass() && (!waited || tries < kMostUnreadable)) {
    failure.reason = absl::StrCat("the checkpoint of step ", recorded.step(),
                                  " could not be read: ", problem.what(), where);
    return;
  }
  failure.cause = kDamaged;
  failure.counts = problem.may_pass();
  failure.node.clear();  // whoever found it
  failure.reason = absl::StrCat(
      problem.may_pass()
          ? absl::StrCat("checkpoint that could not be read ", tries, " times in a row: ")
          : "damaged checkpoint: ",
      problem.what(), where);
  if (Count(record, kDamaged) >= kMostDamaged) {
    failure.permanent = true;
    absl::StrAppend(&failure.reason, "; so were ", kMostDamaged, " before it");
    return;
  }
  DiscardCheckpoint(problem, record);
  if (record.has_checkpoint()) {
    absl::StrAppend(&failure.reason, " — using that of step ", record.checkpoint().step());
  } else {
    absl::StrAppend(&failure.reason, " — no older one is left: the job starts anew");
  }
}

}  // namespace strata::controller

#include "worker/agent/logic/verdict.h"

#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "protocol/exit_codes.h"

namespace strata::worker {
namespace {

bool Fine(const RankEnd& end) {
  return end.ended.has_value() && end.ended->outcome() != v1::Finished::FAILED;
}

// Smaller is more of a cause.
std::tuple<int, int> Weight(const RankEnd& end) {
  const bool said = end.ended.has_value();
  const bool echo = said ? end.ended->echo() : end.killed_by_us;
  return {echo ? 1 : 0, end.order};
}

std::string Reason(bool alone, const RankEnd& end) {
  if (end.ended.has_value()) {
    return alone ? end.ended->message() : absl::StrCat(end.name, ": ", end.ended->message());
  }
  return absl::StrCat(
      end.name, " ", end.how,
      end.position.empty() ? " before its first step" : absl::StrCat(" in ", end.position));
}

}  // namespace

v1::Finished Failed(int exit_code, const std::string& message) {
  v1::Finished finished;
  finished.set_outcome(v1::Finished::FAILED);
  finished.set_exit_code(exit_code);
  finished.set_message(message);
  return finished;
}

v1::Finished Interrupted() {
  v1::Finished finished;
  finished.set_outcome(v1::Finished::INTERRUPTED);
  finished.set_exit_code(protocol::kExitInterrupted);
  finished.set_message("interrupted");
  return finished;
}

Judgement Judge(const std::vector<RankEnd>& ends) {
  const int ranks = static_cast<int>(ends.size());
  int cause = -1;
  v1::Finished finished;
  finished.set_outcome(v1::Finished::SUCCEEDED);
  for (int rank = 0; rank < ranks; ++rank) {
    const RankEnd& end = ends[rank];
    if (!Fine(end)) {
      if (cause < 0 || Weight(end) < Weight(ends[cause])) cause = rank;
    } else if (end.ended->outcome() == v1::Finished::INTERRUPTED) {
      finished = Interrupted();
    }
  }
  if (cause < 0) return {finished};
  const RankEnd& end = ends[cause];
  const int code = end.ended.has_value() && end.ended->exit_code() != 0 ? end.ended->exit_code()
                                                                        : protocol::kExitFailed;
  Judgement judgement = {Failed(code, Reason(ranks == 1, end)), cause,
                         end.ended.has_value() && end.ended->echo(),
                         !end.ended.has_value() && end.killed_by_us};
  if (end.ended.has_value() && end.ended->has_checkpoint_problem()) {
    judgement.checkpoint_problem = end.ended->checkpoint_problem();
  }
  return judgement;
}

}  // namespace strata::worker

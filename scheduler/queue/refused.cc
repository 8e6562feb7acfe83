// The half of the pass that says why a job has no place.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/queue/pass.h"
#include "scheduler/queue/reasons.h"

namespace strata::scheduler {
namespace {

// Different shapes that fit at no time, of which the arithmetic is told.
constexpr size_t kRefused = 10;

}  // namespace

std::vector<Blocker> Pass::LackOf(const Attempt& attempt) const {
  const Occupancy free = RoomFor(board_, attempt, false, nullptr);
  const Occupancy room = board_.For(attempt.job(), free);
  const bool enough =
      Board::MostOf(board_.CountByKind(room), attempt.kinds) >= attempt.shape.ranks();
  std::vector<Blocker> lack = {{enough ? Blocker::Code::kTopology : Blocker::Code::kDevices, "",
                                CountText(board_, attempt.shape, room, attempt.kinds)}};
  const std::string held_back = HeldBackText(board_, Minus(free, room), attempt.kinds);
  if (!held_back.empty()) {
    lack.push_back({Blocker::Code::kBuffer, board_.view().policy.buffer->level, held_back});
  }
  return lack;
}

Waiting Pass::Refused(const Attempt& attempt) const {
  Waiting waiting;
  waiting.blockers = LackOf(attempt);
  if (never_.size() >= kRefused) {
    waiting.starts_when =
        "when more nodes take ranks, if at all: too many jobs wait like this to look at each";
  } else {
    const Occupancy room = board_.For(attempt.job(), RoomFor(board_, attempt, false, nullptr));
    const Occupancy held_back = Minus(RoomFor(board_, attempt, false, nullptr), room);
    Refusal refusal =
        WhyNot(board_.cluster(), board_.OfKinds(room, attempt.kinds), attempt.shape, held_back);
    if (!refusal.reason.empty()) waiting.blockers[0].text = std::move(refusal.reason);
    waiting.starts_when = std::move(refusal.starts_when);
    waiting.infeasible = refusal.infeasible;
    if (refusal.infeasible && refusal.nearest.has_value()) {
      waiting.starts_when = absl::StrCat("never as it is; nearest: ", refusal.nearest->text);
    }
  }
  waiting.reason = ReasonOf(waiting.blockers);
  const bool held_back = waiting.blockers.back().code == Blocker::Code::kBuffer;
  if (held_back && !waiting.infeasible) {
    waiting.starts_when = "when more nodes take ranks, or when scheduling.buffer holds back fewer";
  } else if (waiting.starts_when.empty()) {
    waiting.starts_when = waiting.infeasible ? "never on this cluster"
                                             : "when nodes that now take no ranks do so again";
  }
  if (attempt.recovering() && !attempt.shape.fewer_data.empty()) waiting.infeasible = false;
  return waiting;
}

}  // namespace strata::scheduler

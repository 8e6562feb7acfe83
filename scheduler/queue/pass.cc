#include "scheduler/queue/pass.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/units.h"
#include "scheduler/queue/reasons.h"
#include "scheduler/queue/recovery.h"

namespace strata::scheduler {
namespace {

// Jobs behind the reservation that are placed for, each on what is free: the rest waits unseen.
constexpr int kBackfilled = 200;
// Running jobs that one defragmentation moves.
constexpr size_t kMoved = 3;

int64_t CountOf(const Occupancy& set) {
  int64_t count = 0;
  for (uint64_t devices : set.free) count += std::popcount(devices);
  return count;
}

}  // namespace

Decisions Pass::Run() {
  std::vector<Candidate> recovering;
  std::vector<Candidate> queued;
  for (const Candidate& candidate : InOrder(board_.view())) {
    if (candidate.job->phase == JobPhase::kQueued) {
      queued.push_back(candidate);
    } else if (!RecoverAtOnce(candidate)) {
      recovering.push_back(candidate);
    }
  }
  const std::vector<Candidate> waiting = Merge(recovering, queued);
  for (const Candidate& candidate : waiting) Consider(candidate);
  if (board_.view().policy.defragment && reservation_.has_value()) Defragment();
  int64_t position = 0;
  for (const Candidate& candidate : waiting) {
    const auto told = decisions_.waiting.find(candidate.job->name);
    if (told != decisions_.waiting.end()) told->second.position = ++position;
  }
  return std::move(decisions_);
}

void Pass::FindKinds(Attempt& attempt) const {
  attempt.kinds = board_.Matching(attempt.shape);
  attempt.excess.reset();
  for (size_t k = 0; k < attempt.kinds.size(); ++k) {
    if (!attempt.kinds[k]) continue;
    std::optional<Blocker> why =
        usage_.Excess(attempt.job(), board_.kinds()[k], attempt.shape.ranks());
    if (!why.has_value()) continue;
    attempt.kinds[k] = 0;
    const bool better = attempt.excess.has_value() && attempt.excess->by_itself && !why->by_itself;
    if (!attempt.excess.has_value() || better) attempt.excess = std::move(why);
  }
}

Pass::Attempt Pass::AttemptOf(const Candidate& candidate) const {
  const JobView& job = *candidate.job;
  STRATA_CHECK(job.shape != nullptr);
  Attempt attempt{.candidate = candidate,
                  .shape = *job.shape,
                  .kinds = {},
                  .excess = {},
                  .kept = {},
                  .seconds = SecondsLeft(board_.view(), job)};
  if (attempt.recovering()) {
    attempt.kept.free.resize(board_.cluster().nodes().size(), 0);
    if (const Holder* holder = board_.HolderOf(job)) {
      Put(board_.cluster(), holder->devices, attempt.kept);
    }
  }
  FindKinds(attempt);
  return attempt;
}

Pass::Attempt Pass::AsItRan(const Attempt& attempt) const {
  Attempt fewer = attempt;
  if (!attempt.recovering() || !attempt.job().held.has_value()) return fewer;
  const int64_t asked = DataOf(attempt.shape);
  const int64_t had = DataOf(attempt.shape, attempt.job().held->ranks.size());
  if (had < 1 || had >= asked) return fewer;
  fewer.seconds *= static_cast<double>(asked) / static_cast<double>(had);
  fewer.shape = WithData(attempt.shape, had);
  FindKinds(fewer);
  return fewer;
}

bool Pass::Outlasts(const Attempt& attempt, double delay) const {
  return reservation_.has_value() && board_.view().now + delay + attempt.seconds > reservation_->at;
}

Pass::NeverKey Pass::NeverKeyOf(const Attempt& attempt) const {
  return {attempt.shape.degrees, attempt.shape.topology, attempt.kinds,
          board_.MayTakeBuffer(attempt.job())};
}

const Occupancy* Pass::Reserved(const Attempt& attempt, double delay) const {
  return Outlasts(attempt, delay) ? &WithheldFrom(attempt, *reservation_) : nullptr;
}

// A borrower leaves the buffer what it has to have when the head starts.
const Occupancy& Pass::WithheldFrom(const Attempt& attempt, const Reservation& reservation) const {
  const bool borrows = !attempt.recovering() && board_.MayTakeBuffer(attempt.job());
  return borrows ? reservation.with_buffer : reservation.devices;
}

Pass::Key Pass::KeyOf(const Attempt& attempt) const {
  return {attempt.shape.degrees, attempt.shape.topology,
          attempt.kinds,         board_.MayTakeBuffer(attempt.job()),
          Outlasts(attempt, 0),  Outlasts(attempt, kStopSeconds)};
}

Occupancy Pass::RoomFor(const Board& board, const Attempt& attempt, bool soon,
                        const Occupancy* reserved) {
  Occupancy room = soon ? Union(board.free(), board.soon()) : board.free();
  if (reserved != nullptr) room = Minus(room, *reserved);
  return attempt.recovering() ? Union(room, attempt.kept) : room;
}

std::optional<Pass::Found> Pass::PlaceOn(Board& board, const Attempt& attempt, const Shape& shape,
                                         const Occupancy& room) {
  if (attempt.recovering() && attempt.job().held.has_value()) {
    auto restored = Restore(board, attempt.job(), shape, room, attempt.kinds);
    if (!restored.has_value()) return std::nullopt;
    return Found{std::move(restored->placement), std::move(restored->why)};
  }
  auto placement = board.Fit(attempt.job(), shape, room, attempt.kinds);
  if (!placement.has_value()) return std::nullopt;
  return Found{*std::move(placement), ""};
}

const Pass::Supply& Pass::SupplyNow() {
  if (!supply_.has_value()) {
    supply_ = {board_.CountByKind(Union(board_.free(), board_.soon())), Stoppable(board_)};
  }
  return *supply_;
}

int64_t Pass::SafeFrom(const Attempt& attempt) const {
  return attempt.candidate.priority - std::max<int64_t>(0, board_.view().policy.preemption_gap);
}

bool Pass::EnoughByCount(const Attempt& attempt) {
  const Supply& supply = SupplyNow();
  if (Board::MostOf(supply.soon, attempt.kinds) >= attempt.shape.ranks()) return true;
  const std::vector<int64_t>* stoppable = supply.stoppable.Below(SafeFrom(attempt));
  if (stoppable == nullptr) return false;
  std::vector<int64_t> all = supply.soon;
  for (size_t k = 0; k < all.size(); ++k) all[k] += (*stoppable)[k];
  return Board::MostOf(all, attempt.kinds) >= attempt.shape.ranks();
}

bool Pass::EnoughOnceAllEnded(const Attempt& attempt) {
  if (in_all_.empty()) {
    Occupancy all = Union(board_.free(), board_.soon());
    for (const Holder& holder : board_.holders()) Put(board_.cluster(), holder.devices, all);
    in_all_ = board_.CountByKind(all);
  }
  return Board::MostOf(in_all_, attempt.kinds) >= attempt.shape.ranks();
}

bool Pass::RecoverAtOnce(const Candidate& candidate) {
  const Attempt attempt = AttemptOf(candidate);
  if (StartNow(attempt)) return true;
  const Attempt fewer = AsItRan(attempt);
  return fewer.shape.ranks() < attempt.shape.ranks() && StartNow(fewer);
}

void Pass::Consider(const Candidate& candidate) {
  const Attempt attempt = AsItRan(AttemptOf(candidate));
  if (WaitForQuota(attempt)) return;
  if (!attempt.recovering()) {
    if (const auto never = never_.find(NeverKeyOf(attempt)); never != never_.end()) {
      return Wait(attempt.job(), never->second);
    }
    if (!EnoughOnceAllEnded(attempt)) return WaitForever(attempt);
    if (reservation_.has_value()) {
      if (!EnoughByCount(attempt) || misses_.contains(KeyOf(attempt)) ||
          tried_behind_ >= kBackfilled) {
        return Wait(attempt.job(), behind_);
      }
      ++tried_behind_;
    }
    if (StartNow(attempt)) return;
  }
  if (WaitForStopping(attempt) || TakeBackBuffer(attempt) || Preempt(attempt) || Shrink(attempt)) {
    return;
  }
  if (reservation_.has_value()) {
    if (!attempt.recovering()) misses_.insert(KeyOf(attempt));
    return Wait(attempt.job(), behind_);
  }
  if (ReserveFor(attempt)) return;
  WaitForever(attempt);
}

void Pass::WaitForever(const Attempt& attempt) {
  Waiting waiting = Refused(attempt);
  if (!attempt.recovering()) never_[NeverKeyOf(attempt)] = waiting;
  Wait(attempt.job(), std::move(waiting));
}

bool Pass::WaitForQuota(const Attempt& attempt) {
  const bool some = std::find(attempt.kinds.begin(), attempt.kinds.end(), 1) != attempt.kinds.end();
  if (!attempt.excess.has_value() || some) return false;
  const bool never = attempt.excess->by_itself && !attempt.recovering();
  Wait(attempt.job(), {.reason = attempt.excess->text,
                       .starts_when = never ? "never as it is: ask for fewer ranks, or have the "
                                              "limit raised (strata apply)"
                                            : "when other jobs that count there end, or when it "
                                              "is raised",
                       .infeasible = never,
                       .blockers = {*attempt.excess}});
  return true;
}

void Pass::StartAt(const Attempt& attempt, const Shape& shape, Found found) {
  const double slower = static_cast<double>(attempt.shape.ranks()) /
                        static_cast<double>(std::max<int64_t>(1, shape.ranks()));
  board_.Start(attempt.job(), found.placement, attempt.seconds * slower);
  usage_.Set(attempt.job(), found.placement.kind, shape.ranks());
  supply_.reset();
  decisions_.starts.push_back(
      {attempt.job().name, std::move(found.placement), DataOf(shape), std::move(found.why)});
}

void Pass::ClaimAt(const Attempt& attempt, const Placement& placement, Waiting waiting) {
  const Occupancy room = RoomFor(board_, attempt, true, Reserved(attempt, kStopSeconds));
  if (!board_.MayTakeBuffer(attempt.job())) {
    board_.KeepInBuffer(Minus(room, board_.For(attempt.job(), room)));
  }
  board_.Claim(attempt.job(), placement, kStopSeconds + attempt.seconds);
  usage_.Set(attempt.job(), placement.kind, attempt.shape.ranks());
  supply_.reset();
  Wait(attempt.job(), std::move(waiting));
}

bool Pass::StartNow(const Attempt& attempt) {
  const Occupancy* reserved = Reserved(attempt, 0);
  auto found = PlaceOn(board_, attempt, attempt.shape, RoomFor(board_, attempt, false, reserved));
  if (!found.has_value()) return false;
  if (found->why.empty()) {
    if (!reservation_.has_value()) {
      found->why = "first in the queue that fits";
    } else if (reserved != nullptr) {
      found->why = absl::StrCat("backfilled before ", reservation_->job->name,
                                ": beside what is reserved for it");
    } else {
      found->why =
          absl::StrCat("backfilled before ", reservation_->job->name,
                       ": ends before that can start (~", common::FormatSeconds(attempt.seconds),
                       " of ~", common::FormatSeconds(reservation_->at - board_.view().now), ")");
    }
  }
  StartAt(attempt, attempt.shape, *std::move(found));
  return true;
}

bool Pass::WaitForStopping(const Attempt& attempt) {
  if (CountOf(board_.soon()) == 0) return false;
  const auto found = PlaceOn(board_, attempt, attempt.shape,
                             RoomFor(board_, attempt, true, Reserved(attempt, kStopSeconds)));
  if (!found.has_value()) return false;
  Waiting waiting = scheduler::WaitsForStopping(board_, found->placement);
  ClaimAt(attempt, found->placement, std::move(waiting));
  return true;
}

std::optional<Reservation> Pass::ReservationFor(Board& board, const Attempt& attempt) {
  const Occupancy room = RoomFor(board, attempt, true, nullptr);
  auto reservation = Reserve(board, attempt.job(), room, attempt.kinds, attempt.shape.ranks(),
                             [&](const Occupancy& then) -> std::optional<Placement> {
                               auto found = PlaceOn(board, attempt, attempt.shape, then);
                               if (!found.has_value()) return std::nullopt;
                               return std::move(found->placement);
                             });
  if (reservation.has_value()) reservation->priority = attempt.candidate.priority;
  return reservation;
}

bool Pass::StaysBehindHead(const Attempt& attempt, const Eviction& eviction) {
  if (!reservation_.has_value()) return true;
  Board then = board_;
  const bool stays = StaysBehindHead(then, attempt, eviction);
  board_.VisitedAs(then);
  return stays;
}

bool Pass::StaysBehindHead(Board& then, const Attempt& attempt, const Eviction& eviction) const {
  for (const JobView* victim : eviction.victims) then.Stop(*victim);
  if (PlaceOn(then, *head_, head_->shape, RoomFor(then, *head_, true, nullptr)).has_value()) {
    return false;  // the head would take it
  }
  const auto reservation = ReservationFor(then, *head_);
  if (!reservation.has_value()) return false;
  const bool outlasts = board_.view().now + kStopSeconds + attempt.seconds > reservation->at;
  return PlaceOn(then, attempt, attempt.shape,
                 RoomFor(then, attempt, true,
                         outlasts ? &WithheldFrom(attempt, *reservation) : nullptr))
      .has_value();
}

bool Pass::Preempt(const Attempt& attempt) {
  const View& view = board_.view();
  if (!board_.MaySearch() || SupplyNow().stoppable.Below(SafeFrom(attempt)) == nullptr)
    return false;
  const std::vector<Victim> victims =
      VictimsOf(board_, [&](int64_t other) { return other < SafeFrom(attempt); });
  const auto eviction = FindEviction(board_, victims, WantedBy(attempt), victims.size());
  if (!eviction.has_value()) return false;
  Evict(attempt, *eviction, [&](const JobView& victim) {
    return absl::StrCat("priority ", attempt.candidate.priority, " over ",
                        EffectivePriority(view.policy, victim));
  });
  return true;
}

// Ranks that lost their node take the buffer back from those who borrowed it.
bool Pass::TakeBackBuffer(const Attempt& attempt) {
  if (!attempt.recovering() || IsPreemptible(board_.view().policy, attempt.job()) ||
      !board_.MaySearch()) {
    return false;
  }
  const std::vector<Victim> borrowers = BorrowersOf(board_);
  if (borrowers.empty()) return false;
  const auto eviction = FindEviction(board_, borrowers, WantedBy(attempt), borrowers.size());
  if (!eviction.has_value()) return false;
  Evict(attempt, *eviction, [](const JobView&) { return "it had borrowed nodes of the buffer"; });
  return true;
}

Wanted Pass::WantedBy(const Attempt& attempt) {
  const Occupancy* reserved = Reserved(attempt, kStopSeconds);
  Wanted wanted{.room = RoomFor(board_, attempt, true, reserved),
                .forbidden = reserved == nullptr ? Occupancy{} : *reserved,
                .kept = attempt.kept,
                .kinds = attempt.kinds,
                .devices = std::max<int64_t>(0, attempt.shape.ranks() - CountOf(attempt.kept)),
                .fills_buffer = !board_.MayTakeBuffer(attempt.job())};
  wanted.place = [this, &attempt](const Occupancy& room) -> std::optional<Placement> {
    auto found = PlaceOn(board_, attempt, attempt.shape, room);
    if (!found.has_value()) return std::nullopt;
    return std::move(found->placement);
  };
  wanted.accept = [this, &attempt](const Eviction& eviction) {
    return StaysBehindHead(attempt, eviction);
  };
  return wanted;
}

void Pass::Evict(const Attempt& attempt, const Eviction& eviction,
                 const std::function<std::string(const JobView&)>& why) {
  for (const JobView* victim : eviction.victims) {
    const double lost = board_.view().now - std::max(victim->checkpoint_at, victim->started_at);
    decisions_.preemptions.push_back(
        {victim->name, attempt.job().name,
         absl::StrCat(why(*victim), "; ", common::FormatSeconds(std::max(0.0, lost)),
                      " since its newest checkpoint on ", victim->held->ranks.size(), " devices")});
    board_.Stop(*victim);
  }
  ClaimAt(attempt, eviction.placement, WaitsForVictims(board_, eviction.victims));
  misses_.clear();
  if (reservation_.has_value()) {
    // See StaysBehindHead. Without a place later (nodes that the buffer takes back once they are
    // wholly free can do that) it waits without a reservation until the next cycle, which is no
    // reason to end a controller.
    const Attempt head = *head_;
    static_cast<void>(ReserveFor(head));
  }
}

bool Pass::Shrink(const Attempt& attempt) {
  const View& view = board_.view();
  if (!attempt.recovering() || !attempt.job().held.has_value() ||
      view.now - attempt.job().failed_at < view.policy.shrink_after_seconds) {
    return false;
  }
  Attempt fewer = attempt;
  for (int64_t data : attempt.job().shape->fewer_data) {
    if (data < 1 || data >= DataOf(attempt.shape)) continue;
    fewer.shape = WithData(*attempt.job().shape, data);
    FindKinds(fewer);
    const Occupancy room = RoomFor(board_, fewer, false, Reserved(attempt, 0));
    if (auto found = PlaceOn(board_, fewer, fewer.shape, room)) {
      StartAt(attempt, fewer.shape, *std::move(found));
      return true;
    }
  }
  return false;
}

bool Pass::ReserveFor(const Attempt& attempt) {
  reservation_ = ReservationFor(board_, attempt);
  if (!reservation_.has_value()) return false;
  head_ = attempt;
  behind_ = WaitsBehind(board_, *reservation_);
  std::vector<Blocker> lack = LackOf(attempt);
  if (lack[0].code == Blocker::Code::kTopology) {
    const Occupancy room = board_.For(attempt.job(), RoomFor(board_, attempt, false, nullptr));
    lack[0].text =
        WhyNot(board_.cluster(), board_.OfKinds(room, attempt.kinds), attempt.shape).reason;
  }
  Wait(attempt.job(), WaitsForReservation(board_, *reservation_, std::move(lack)));
  return true;
}

bool Pass::AllMove(const Attempt& head, const Eviction& eviction) {
  Board then = board_;
  const bool all = AllMove(then, head, eviction);
  board_.VisitedAs(then);
  return all;
}

bool Pass::AllMove(Board& then, const Attempt& head, const Eviction& eviction) {
  for (const JobView* victim : eviction.victims) then.Stop(*victim);
  then.Claim(head.job(), eviction.placement, head.seconds);
  for (const JobView* victim : eviction.victims) {
    const auto placement = then.Fit(*victim, *victim->shape, Union(then.free(), then.soon()),
                                    then.Matching(*victim->shape));
    if (!placement.has_value()) return false;
    then.Claim(*victim, *placement, SecondsLeft(then.view(), *victim));
  }
  return true;
}

// Stops running jobs of no higher priority that all have a place elsewhere once the head of the
// queue has its own; only one such move at a time, and only where waiting takes longer.
void Pass::Defragment() {
  const View& view = board_.view();
  const Attempt& head = *head_;
  const Occupancy room = RoomFor(board_, head, false, nullptr);
  const bool in_total = Board::MostOf(board_.CountByKind(room), head.kinds) >= head.shape.ranks();
  if (!in_total || !board_.stopping().empty() ||
      reservation_->at - view.now <= view.policy.min_run_seconds) {
    return;
  }
  const std::vector<Victim> victims =
      VictimsOf(board_, [&](int64_t other) { return other <= head.candidate.priority; });
  Wanted wanted{.room = room,
                .forbidden = {},
                .kept = head.kept,
                .kinds = head.kinds,
                .devices = std::max<int64_t>(0, head.shape.ranks() - CountOf(head.kept)),
                .fills_buffer = !board_.MayTakeBuffer(head.job())};
  wanted.place = [&](const Occupancy& then) -> std::optional<Placement> {
    auto found = PlaceOn(board_, head, head.shape, then);
    if (!found.has_value()) return std::nullopt;
    return std::move(found->placement);
  };
  wanted.accept = [&](const Eviction& eviction) { return AllMove(head, eviction); };
  const auto eviction = FindEviction(board_, victims, wanted, kMoved);
  if (!eviction.has_value()) return;
  for (const JobView* victim : eviction->victims) {
    decisions_.preemptions.push_back(
        {victim->name, head.job().name,
         absl::StrCat("moves elsewhere so that ", head.job().name,
                      " fits (defragmentation): enough devices are free, but not together")});
  }
  Waiting waiting = WaitsForVictims(board_, eviction->victims);
  waiting.reason += " and start again elsewhere";
  Wait(head.job(), std::move(waiting));
}

}  // namespace strata::scheduler

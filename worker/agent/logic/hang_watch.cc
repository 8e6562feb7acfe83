#include "worker/agent/logic/hang_watch.h"

#include <algorithm>
#include <cmath>

namespace strata::worker {
namespace {

// By it a controller knows that the rank waits for storage (Heartbeat.Rank.phase).
constexpr char kStoragePhase[] = "storage: ";

}  // namespace

HangWatch::HangWatch(int places, const HangLimits& limits, const common::Clock* clock)
    : limits_(limits), clock_(clock), places_(places), looked_(clock->Now()), since_(looked_) {
  for (Place& place : places_) place.changed = looked_;
}

void HangWatch::SetGroups(int place, const v1::Prepared& prepared) {
  places_[place].groups.clear();
  for (const v1::GroupDigest& group : prepared.groups()) {
    places_[place].groups[group.group()].assign(group.members().begin(), group.members().end());
  }
}

// Looked at only where something takes long: a process has many threads. One in state D leaves it
// between two chunks.
bool HangWatch::InStorage(TrainerGroup& group, int place, const RankView& view, double now) {
  double longest = view.phase_seconds;
  if (view.phase == Phase::kTraining || view.phase == Phase::kEvaluating) longest = 0;
  for (const RankActivity& activity : view.activities) {
    longest = std::max(longest, activity.seconds);
  }
  if (longest <= limits_.suspect_seconds) return false;
  double& seen = places_[place].storage;
  if (group[place].IsInUninterruptibleSleep()) seen = now;
  return seen >= 0 && now - seen <= limits_.suspect_seconds;
}

RankView HangWatch::ViewOf(TrainerGroup& group, int place, double now) {
  const auto age = [&](double begin) { return now - std::clamp(begin, since_, now); };
  RankView view;
  view.rank = group.rank(place);
  // On two looks without a gap: whoever continues a whole node does it process by process.
  const bool stopped = group[place].IsStopped();
  view.stopped = stopped && places_[place].stopped && looked_ > since_;
  places_[place].stopped = stopped;
  view.groups = places_[place].groups;
  Place& at = places_[place];
  const ProgressView* const progress = group[place].progress();
  if (progress == nullptr) {
    // Of one that cannot be read nothing is known, and nothing is judged.
    if (group[place].progress_unknown()) view.phase = Phase::kJoining;
    view.phase_seconds = age(at.changed);
    view.in_storage = InStorage(group, place, view, now);
    return view;
  }
  if (progress->ticks() != at.ticks) {
    at.ticks = progress->ticks();
    at.changed = now;
  }
  view.quiet_seconds = age(at.changed);
  view.phase = progress->phase();
  view.phase_seconds = age(progress->phase_begin());
  view.in_storage_operation = progress->in_storage_operation();
  if (progress->storage_tick() > 0) view.storage_quiet_seconds = age(progress->storage_tick());
  view.checkpointing = progress->step() <= progress->checkpoint_step();
  view.position = progress->DescribePosition();
  if (view.position.empty()) view.position = Name(view.phase);
  for (const ProgressView::Activity& activity : progress->Activities()) {
    view.activities.push_back({activity.label, activity.group, activity.stream, activity.pair,
                               activity.sequence, age(activity.begin), activity.slowest,
                               activity.storage});
    // Only what somebody waits in is asked of the others.
    if (!activity.group.empty()) asked_.insert({activity.group, activity.stream});
  }
  view.in_storage = InStorage(group, place, view, now);
  return view;
}

std::optional<HangVerdict> HangWatch::Look(TrainerGroup& group, double connected_since) {
  const double now = clock_->Now();
  if (now - looked_ > kGapSeconds) since_ = now;
  looked_ = now;
  std::vector<RankView> views;
  asked_.clear();
  for (int place = 0; place < group.size(); ++place) {
    if (!group[place].reaped()) views.push_back(ViewOf(group, place, now));
  }
  size_t next = 0;
  for (int place = 0; place < group.size(); ++place) {
    if (group[place].reaped()) continue;
    RankView& view = views[next++];
    const ProgressView* const progress = group[place].progress();
    for (const auto& key : asked_) {
      view.begun[key] = progress == nullptr ? 0 : progress->Begun(key.first, key.second);
    }
  }
  const double connected = connected_since < 0 ? 0 : now - std::max(connected_since, since_);
  std::optional<HangVerdict> verdict = JudgeHang(views, limits_, connected);
  if (verdict.has_value() && verdict->suspected) {
    const std::pair<int, std::string> what{verdict->rank, verdict->instruction};
    const double began = now - verdict->seconds;
    if (suspected_.has_value() && suspected_->first == what &&
        std::abs(suspected_->second - began) < kGapSeconds) {
      return std::nullopt;
    }
    suspected_.emplace(what, began);
  }
  if (verdict.has_value() && verdict->local) {
    for (int place = 0; place < group.size(); ++place) {
      if (group.rank(place) == verdict->rank) verdict->stack = group[place].Stack();
    }
  }
  return verdict;
}

RankPosition HangWatch::PositionOf(TrainerGroup& group, int place) const {
  RankPosition position;
  const ProgressView* const progress = group[place].progress();
  if (progress == nullptr) {
    position.phase = group[place].progress_unknown() ? "progress file of an unknown version"
                                                     : Name(Phase::kStarting);
    return position;
  }
  position.step = progress->step();
  position.phase = Name(progress->phase());
  double begin = progress->phase_begin();
  const std::vector<ProgressView::Activity> activities = progress->Activities();
  const auto oldest =
      std::min_element(activities.begin(), activities.end(),
                       [](const auto& a, const auto& b) { return a.begin < b.begin; });
  bool storage = progress->phase() == Phase::kLoading || progress->in_storage_operation();
  if (oldest != activities.end()) {
    position.phase = oldest->label;
    storage |= oldest->storage;
    begin = oldest->begin;
  }
  if (storage) position.phase = kStoragePhase + position.phase;
  position.phase_seconds = std::max(0.0, clock_->Now() - begin);
  return position;
}

}  // namespace strata::worker

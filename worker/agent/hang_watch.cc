#include "worker/agent/hang_watch.h"

#include <algorithm>

namespace strata::worker {

HangWatch::HangWatch(int places, const common::Clock* clock)
    : clock_(clock), places_(places), looked_(clock->Now()), since_(looked_) {
  for (Place& place : places_) place.changed = looked_;
}

void HangWatch::SetGroups(int place, const v1::Prepared& prepared) {
  places_[place].groups.clear();
  for (const v1::GroupDigest& group : prepared.groups()) {
    places_[place].groups[group.group()].assign(group.members().begin(), group.members().end());
  }
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
  const ProgressReader* const progress = group[place].progress();
  if (progress == nullptr) {
    view.phase_seconds = age(at.changed);
    return view;
  }
  if (progress->ticks() != at.ticks) {
    at.ticks = progress->ticks();
    at.changed = now;
  }
  view.quiet_seconds = age(at.changed);
  view.phase = progress->phase();
  view.phase_seconds = age(progress->phase_begin());
  view.checkpointing = progress->step() <= progress->checkpoint_step();
  view.position = progress->DescribePosition();
  if (view.position.empty()) view.position = Name(view.phase);
  for (const ProgressReader::Activity& activity : progress->Activities()) {
    view.activities.push_back({activity.label, activity.group, activity.stream, activity.pair,
                               activity.sequence, age(activity.begin), activity.slowest});
    // Only what somebody waits in is asked of the others.
    if (!activity.group.empty()) asked_.insert({activity.group, activity.stream});
  }
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
    const ProgressReader* const progress = group[place].progress();
    for (const auto& key : asked_) {
      view.begun[key] = progress == nullptr ? 0 : progress->Begun(key.first, key.second);
    }
  }
  const double connected = connected_since < 0 ? 0 : now - std::max(connected_since, since_);
  return JudgeHang(views, connected);
}

RankPosition HangWatch::PositionOf(TrainerGroup& group, int place) const {
  RankPosition position;
  const ProgressReader* const progress = group[place].progress();
  if (progress == nullptr) {
    position.phase = Name(Phase::kStarting);
    return position;
  }
  position.step = progress->step();
  position.phase = Name(progress->phase());
  double begin = progress->phase_begin();
  const std::vector<ProgressReader::Activity> activities = progress->Activities();
  const auto oldest =
      std::min_element(activities.begin(), activities.end(),
                       [](const auto& a, const auto& b) { return a.begin < b.begin; });
  if (oldest != activities.end()) {
    position.phase = oldest->label;
    begin = oldest->begin;
  }
  position.phase_seconds = std::max(0.0, clock_->Now() - begin);
  return position;
}

}  // namespace strata::worker

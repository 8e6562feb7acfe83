// Reads the progress files of a group of trainers over and over, and judges whether one hangs.
#ifndef STRATA_WORKER_AGENT_LOGIC_HANG_WATCH_H_
#define STRATA_WORKER_AGENT_LOGIC_HANG_WATCH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/agent/logic/hang_verdict.h"
#include "worker/agent/logic/trainer_group.h"

namespace strata::worker {

// What a rank is at, for heartbeats.
struct RankPosition {
  int64_t step = 0;
  std::string phase;  // the label of its oldest instruction in flight, or its phase's name
  double phase_seconds = 0;
};

// Used by one thread.
class HangWatch {
 public:
  // Between two looks that are further apart this process stood still, and knows nothing of the
  // time between.
  static constexpr double kGapSeconds = 1;

  // `clock` is that of the trainers, borrowed.
  HangWatch(int places, const HangLimits& limits, const common::Clock* clock);

  void SetLimits(const HangLimits& limits) { limits_ = limits; }
  // The groups of a rank, from what it said when it was prepared.
  void SetGroups(int place, const v1::Prepared& prepared);
  // To be called several times a second. A suspicion is given once per execution.
  // `connected_since`: clock time; negative: not connected.
  std::optional<HangVerdict> Look(TrainerGroup& group, double connected_since);
  RankPosition PositionOf(TrainerGroup& group, int place) const;

 private:
  struct Place {
    std::map<std::string, std::vector<int>> groups;
    uint64_t ticks = 0;
    double changed = 0;    // clock time
    bool stopped = false;  // at the last look
    double storage = -1;   // clock time at which a thread was last seen in state D; negative: never
  };
  bool InStorage(TrainerGroup& group, int place, const RankView& view, double now);
  RankView ViewOf(TrainerGroup& group, int place, double now);

  HangLimits limits_;
  const common::Clock* const clock_;
  std::vector<Place> places_;
  std::set<std::pair<std::string, int>> asked_;  // group and stream of what is waited in
  // What was told as suspected: rank, instruction and about when it began.
  std::optional<std::pair<std::pair<int, std::string>, double>> suspected_;
  double looked_;  // clock time
  double since_;   // ages count from here at most
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_HANG_WATCH_H_

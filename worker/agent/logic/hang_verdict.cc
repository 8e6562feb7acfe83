#include "worker/agent/logic/hang_verdict.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace strata::worker {
namespace {

// Between two instructions a rank does next to nothing.
constexpr double kQuietSeconds = 10;

bool Steps(const RankView& rank) {
  return rank.phase == Phase::kTraining || rank.phase == Phase::kEvaluating;
}

// What waits for storage, or could.
bool WaitsForStorage(const RankView& rank, const RankActivity* activity) {
  if (activity == nullptr) {
    return rank.in_storage || rank.in_storage_operation || rank.phase == Phase::kLoading;
  }
  return rank.in_storage || rank.checkpointing || activity->storage;
}

double Limit(const RankView& rank, const RankActivity& activity, const HangLimits& limits) {
  const double limit = limits.Compute(activity.slowest);
  return WaitsForStorage(rank, &activity) ? std::max(limit, limits.Storage()) : limit;
}

double Limit(const RankView& rank, const HangLimits& limits) {
  const double limit = limits.OfPhase(rank.phase);
  return rank.in_storage ? std::max(limit, limits.Storage()) : limit;
}

// How long nothing of it has moved: what reads or writes files moves with each chunk.
double Stuck(const RankView& rank, double seconds, bool storage) {
  return storage ? std::min(seconds, rank.storage_quiet_seconds) : seconds;
}

bool Works(const RankView& rank) {
  return std::any_of(rank.activities.begin(), rank.activities.end(),
                     [](const RankActivity& activity) { return activity.group.empty(); });
}

HangVerdict Local(const RankView& rank, const RankActivity* activity, double seconds) {
  HangVerdict verdict;
  verdict.rank = rank.rank;
  verdict.local = true;
  verdict.storage = !rank.stopped && WaitsForStorage(rank, activity);
  verdict.seconds = seconds;
  verdict.instruction = rank.position;
  if (activity != nullptr) {
    verdict.instruction = activity->instruction;
    verdict.group = activity->group;
    verdict.sequence = activity->sequence;
  }
  return verdict;
}

// The longest wait in a communication, for the name of what a stopped rank holds up.
const RankActivity* LongestWait(const std::vector<RankView>& ranks) {
  const RankActivity* longest = nullptr;
  for (const RankView& rank : ranks) {
    for (const RankActivity& activity : rank.activities) {
      if (activity.group.empty()) continue;
      if (longest == nullptr || activity.seconds > longest->seconds) longest = &activity;
    }
  }
  return longest;
}

std::optional<HangVerdict> JudgeStopped(const std::vector<RankView>& ranks) {
  for (const RankView& rank : ranks) {
    if (!rank.stopped) continue;
    const RankActivity* const own = rank.activities.empty() ? nullptr : &rank.activities.front();
    HangVerdict verdict = Local(rank, own, rank.quiet_seconds);
    verdict.stopped = true;
    const RankActivity* const waited = LongestWait(ranks);
    if (verdict.group.empty() && waited != nullptr) verdict.group = waited->group;
    return verdict;
  }
  return std::nullopt;
}

// Stuck in its own work, or before the first step.
std::optional<HangVerdict> JudgeOwnWork(const std::vector<RankView>& ranks,
                                        const HangLimits& limits) {
  std::optional<HangVerdict> worst;
  double worst_ratio = 1;
  const auto consider = [&](const RankView& rank, const RankActivity* activity, double seconds,
                            double limit) {
    if (seconds / limit <= worst_ratio) return;
    worst_ratio = seconds / limit;
    worst = Local(rank, activity, seconds);
    worst->limit_seconds = limit;
  };
  for (const RankView& rank : ranks) {
    // Of whatever phase, also where it writes in the background.
    if (rank.in_storage_operation) {
      consider(rank, nullptr, rank.storage_quiet_seconds, limits.Storage());
    }
    if (!Steps(rank)) {
      consider(rank, nullptr, Stuck(rank, rank.phase_seconds, /*storage=*/true),
               Limit(rank, limits));
    }
    for (const RankActivity& activity : rank.activities) {
      if (!activity.group.empty()) continue;
      consider(rank, &activity, Stuck(rank, activity.seconds, activity.storage),
               Limit(rank, activity, limits));
    }
  }
  return worst;
}

// Longer than ever lately, and not long enough to do anything about it.
std::optional<HangVerdict> JudgeSuspected(const std::vector<RankView>& ranks,
                                          const HangLimits& limits) {
  std::optional<HangVerdict> longest;
  for (const RankView& rank : ranks) {
    for (const RankActivity& activity : rank.activities) {
      if (!activity.group.empty() || activity.slowest <= 0 ||
          activity.seconds <= limits.Suspect(activity.slowest) ||
          (longest.has_value() && longest->seconds >= activity.seconds)) {
        continue;
      }
      longest = Local(rank, &activity, activity.seconds);
      longest->limit_seconds = Limit(rank, activity, limits);
      longest->suspected = true;
    }
  }
  return longest;
}

uint64_t Begun(const RankView& rank, const RankActivity& activity) {
  const auto found = rank.begun.find({activity.group, activity.stream});
  return found == rank.begun.end() ? 0 : found->second;
}

bool WaitsIn(const RankView& rank, const RankActivity& wait) {
  return std::any_of(rank.activities.begin(), rank.activities.end(),
                     [&](const RankActivity& activity) {
                       return activity.group == wait.group && activity.stream == wait.stream &&
                              activity.sequence == wait.sequence;
                     });
}

class WaitJudge {
 public:
  WaitJudge(const std::vector<RankView>& ranks, const RankView& waiting, const RankActivity& wait,
            const HangLimits& limits, double connected_seconds)
      : ranks_(ranks),
        waiting_(waiting),
        wait_(wait),
        limits_(limits),
        connected_seconds_(connected_seconds) {}

  std::optional<HangVerdict> Judge() {
    const auto members = waiting_.groups.find(wait_.group);
    if (members == waiting_.groups.end()) return std::nullopt;
    for (const int member : members->second) Sort(member);
    if (!lagging_.empty()) return JudgeLagging();
    HangVerdict verdict;
    verdict.group = wait_.group;
    verdict.instruction = wait_.instruction;
    verdict.sequence = wait_.sequence;
    verdict.waiting = present_;
    verdict.missing = missing_;
    if (missing_.empty()) {
      // All have come, and it does not end: nobody's fault that could be told.
      verdict.limit_seconds = Limit(waiting_, wait_, limits_);
      if (wait_.pair || wait_.seconds <= verdict.limit_seconds) return std::nullopt;
      verdict.local = true;
      verdict.seconds = wait_.seconds;
      return verdict;
    }
    verdict.rank = missing_.front();
    verdict.seconds = std::min(wait_.seconds, connected_seconds_);
    if (verdict.seconds <= limits_.Suspect(wait_.slowest)) return std::nullopt;
    // Its own agent, if it lives, knows better what the missing rank waits for: after the longest
    // that it may give it, nobody does.
    verdict.limit_seconds =
        std::max(limits_.Storage(), limits_.Compute(wait_.slowest)) + limits_.hang_seconds;
    verdict.tentative = verdict.seconds <= verdict.limit_seconds;
    return verdict;
  }

 private:
  void Sort(int member) {
    const auto here = std::find_if(ranks_.begin(), ranks_.end(),
                                   [&](const RankView& rank) { return rank.rank == member; });
    if (here == ranks_.end()) {
      missing_.push_back(member);
    } else if (wait_.pair || Begun(*here, wait_) >= wait_.sequence) {
      if (WaitsIn(*here, wait_)) present_.push_back(member);
    } else {
      lagging_.push_back(&*here);
    }
  }

  // One that works or waits elsewhere will come, or is judged for that.
  std::optional<HangVerdict> JudgeLagging() {
    for (const RankView* const rank : lagging_) {
      if (!Steps(*rank) || Works(*rank) || !rank->activities.empty()) continue;
      const double limit = std::max(kQuietSeconds, Limit(*rank, wait_, limits_));
      if (rank->quiet_seconds <= limit) continue;
      HangVerdict verdict = Local(*rank, &wait_, rank->quiet_seconds);
      verdict.waiting = present_;
      return verdict;
    }
    return std::nullopt;
  }

  const std::vector<RankView>& ranks_;
  const RankView& waiting_;
  const RankActivity& wait_;
  const HangLimits& limits_;
  const double connected_seconds_;
  std::vector<const RankView*> lagging_;
  std::vector<int> missing_, present_;
};

}  // namespace

std::optional<HangVerdict> JudgeHang(const std::vector<RankView>& ranks, const HangLimits& limits,
                                     double connected_seconds) {
  if (std::optional<HangVerdict> verdict = JudgeStopped(ranks)) return verdict;
  if (std::optional<HangVerdict> verdict = JudgeOwnWork(ranks, limits)) return verdict;
  std::optional<HangVerdict> elsewhere;
  for (const RankView& rank : ranks) {
    for (const RankActivity& activity : rank.activities) {
      if (activity.group.empty() || activity.seconds <= limits.Suspect(activity.slowest)) continue;
      std::optional<HangVerdict> verdict =
          WaitJudge(ranks, rank, activity, limits, connected_seconds).Judge();
      if (!verdict.has_value()) continue;
      if (verdict->local) return verdict;
      // Of several waits the longest is what the others follow from.
      if (!elsewhere.has_value() || verdict->seconds > elsewhere->seconds) elsewhere = verdict;
    }
  }
  return elsewhere.has_value() ? elsewhere : JudgeSuspected(ranks, limits);
}

std::string Describe(const HangVerdict& verdict) {
  std::string text = verdict.rank >= 0 ? absl::StrCat("rank ", verdict.rank, " has not moved")
                                       : "all ranks wait for each other";
  absl::StrAppendFormat(&text, " for %.1f s", verdict.seconds);
  if (verdict.storage) absl::StrAppend(&text, ", waiting for storage");
  if (verdict.stopped) text = absl::StrCat("rank ", verdict.rank, "'s process was stopped");
  if (!verdict.instruction.empty()) absl::StrAppend(&text, ": '", verdict.instruction, "'");
  if (!verdict.group.empty()) absl::StrAppend(&text, ", group ", verdict.group);
  if (!verdict.waiting.empty()) {
    absl::StrAppend(&text, "; waiting: ranks ", absl::StrJoin(verdict.waiting, ", "));
  }
  return text;
}

}  // namespace strata::worker

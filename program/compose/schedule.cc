#include "program/compose/schedule.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::program {
namespace {

absl::Status Check(const ScheduleOptions& o) {
  constexpr int64_t kMostPasses = int64_t{1} << 24;
  if (o.stages < 1 || o.virtual_stages < 1 || o.micro_batches < 1 || o.in_flight < 0 ||
      o.durations.forward < 1 || o.durations.backward_input < 1 ||
      o.durations.backward_weight < 1) {
    return absl::InvalidArgumentError("pipeline schedule: sizes and durations must be positive");
  }
  if (static_cast<int64_t>(o.stages) * o.virtual_stages > kMostPasses / o.micro_batches) {
    return absl::InvalidArgumentError("pipeline schedule: more than 2^24 passes in a step");
  }
  const bool whole = o.kind == ScheduleKind::kGpipe || o.kind == ScheduleKind::k1F1B;
  if (whole && o.virtual_stages != 1) {
    return absl::InvalidArgumentError(absl::StrCat("GPipe and 1F1B have one chunk per stage, not ",
                                                   o.virtual_stages, ": that is interleaved 1F1B"));
  }
  const bool zbv = o.kind == ScheduleKind::kZbv;
  if (zbv && o.virtual_stages != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("ZB-V has two chunks per stage (there and back), not ", o.virtual_stages));
  }
  if (!zbv && o.virtual_stages > 1 && o.micro_batches % o.stages != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "interleaved pipelines take micro-batches in groups of the pipeline's ", o.stages,
        " stages: ", o.micro_batches, " micro-batches are no multiple of that"));
  }
  const int least = zbv ? 2 * o.stages : (o.virtual_stages - 1) * o.stages + 1;
  if (o.in_flight > 0 && o.in_flight < least) {
    return absl::InvalidArgumentError(absl::StrCat("a pipeline of ", o.stages, " stages with ",
                                                   o.virtual_stages, " chunks each holds at least ",
                                                   least, " passes in flight, not ", o.in_flight));
  }
  return absl::OkStatus();
}

// Forwards before the first backward, or the first pair of both.
int WarmUp(const ScheduleOptions& o, int stage) {
  const int later = o.stages - 1 - stage;
  int count = o.virtual_stages == 1 ? later : 2 * later + (o.virtual_stages - 1) * o.stages;
  if (o.kind == ScheduleKind::kGpipe) count = o.micro_batches;
  if (o.kind == ScheduleKind::kZbv) count = 2 * o.stages - 1;
  if (o.in_flight > 0) count = std::min(count, o.in_flight - 1);
  return std::min(count, o.micro_batches * o.virtual_stages);
}

// The k-th forward of a stage, or, with chunks counted from the last, its k-th backward.
ScheduledPass Nth(const ScheduleOptions& o, PassKind kind, int k) {
  ScheduledPass pass{.kind = kind, .micro_batch = k};
  if (o.virtual_stages > 1) {
    const int cycle = o.stages * o.virtual_stages;
    pass.chunk = k % cycle / o.stages;
    pass.micro_batch = k / cycle * o.stages + k % o.stages;
  }
  if (kind == PassKind::kBackward) pass.chunk = o.virtual_stages - 1 - pass.chunk;
  return pass;
}

// Of ZB-V. The way there (chunk 0) is fed until the first micro-batches are back (chunk 1) and
// their gradients with them; then each round takes a micro-batch in and lets one out, with 2P chunk
// passes held before it. Fewer micro-batches than fill the V leave gaps where others would be.
std::vector<ScheduledPass> OrderOfV(const ScheduleOptions& o, int stage) {
  std::vector<ScheduledPass> order;
  int forwards[2] = {0, 0}, backwards[2] = {0, 0};  // by chunk
  const auto add = [&](PassKind kind, int chunk) {
    const int micro = (kind == PassKind::kForward ? forwards : backwards)[chunk]++;
    if (micro < o.micro_batches) order.push_back({kind, chunk, micro});
  };
  const auto forward = [&](int chunk) { add(PassKind::kForward, chunk); };
  const auto backward = [&](int chunk) { add(PassKind::kBackward, chunk); };
  const int later = o.stages - stage, count = std::max(o.micro_batches, 2 * o.stages - 1);
  for (int k = 0; k < 2 * later - 1; ++k) forward(0);
  for (int k = 0; k < stage; ++k) forward(1), forward(0);
  for (int k = 0; k < later; ++k) forward(1), backward(1);
  while (forwards[1] < count) {
    if (forwards[0] < count) forward(0);
    backward(0), forward(1), backward(1);
  }
  for (int k = 0; k < stage; ++k) backward(0), backward(1);
  for (int k = 0; k < later; ++k) backward(0);
  return order;
}

// Forwards and backwards of a stage in their order.
std::vector<ScheduledPass> OrderOf(const ScheduleOptions& o, int stage) {
  if (o.kind == ScheduleKind::kZbv) return OrderOfV(o, stage);
  const int count = o.micro_batches * o.virtual_stages, ahead = WarmUp(o, stage);
  std::vector<ScheduledPass> order;
  for (int k = 0; k < ahead; ++k) order.push_back(Nth(o, PassKind::kForward, k));
  for (int k = 0; k < count; ++k) {
    if (k + ahead < count) order.push_back(Nth(o, PassKind::kForward, k + ahead));
    order.push_back(Nth(o, PassKind::kBackward, k));
  }
  return order;
}

// Plays the stages forward in time: each runs the next pass of its order as soon as what that needs
// is there, and weight gradients put off where it would wait long enough: while it does not know
// for how long, or at least patience/2 of a weight gradient's duration.
class Player {
 public:
  Player(const ScheduleOptions& options, int patience)
      : o_(options),
        patience_(patience),
        stages_(options.stages),
        ends_(static_cast<size_t>(options.stages) * options.virtual_stages * 2,
              std::vector<int64_t>(options.micro_batches, -1)) {
    for (int r = 0; r < o_.stages; ++r) {
      stages_[r].order = OrderOf(o_, r);
      stages_[r].bound = InFlightBound(o_, r);
    }
  }

  absl::StatusOr<Schedule> Run() {
    for (;;) {
      // The earliest begin first: what begins later cannot change what others know by then.
      std::optional<std::tuple<int64_t, bool, int, bool>> best;
      for (int r = 0; r < o_.stages; ++r) {
        const std::optional<Choice> choice = Choose(r);
        if (!choice.has_value()) continue;
        const std::tuple key{choice->begin, choice->filler, r, choice->weight};
        if (!best.has_value() || key < *best) best = key;
      }
      if (!best.has_value()) break;
      Start(std::get<2>(*best), std::get<0>(*best), std::get<3>(*best));
    }
    Schedule schedule;
    for (Stage& stage : stages_) {
      if (stage.next < stage.order.size()) {
        return absl::InternalError("pipeline schedule: stages wait for each other");
      }
      schedule.makespan = std::max(schedule.makespan, stage.free_at);
      schedule.stages.push_back(std::move(stage.done));
    }
    return schedule;
  }

 private:
  struct Stage {
    std::vector<ScheduledPass> order;
    size_t next = 0;                    // of the order
    std::deque<ScheduledPass> weights;  // put off, oldest first
    int held = 0;                       // passes in flight
    int bound = 0;
    int64_t free_at = 0;
    std::vector<ScheduledPass> done;
  };
  struct Choice {
    int64_t begin = 0;
    bool weight = false;  // a weight gradient, else the next of the order
    bool filler = false;  // only because the next of the order must wait
  };

  int64_t& EndOf(PassKind kind, int virtual_stage, int micro_batch) {
    return ends_[virtual_stage * 2 + (kind == PassKind::kForward ? 0 : 1)][micro_batch];
  }

  // When the inputs of a stage's pass are there; -1: not known yet.
  int64_t InputsAt(const ScheduledPass& pass, int stage) {
    const int own = o_.virtual_stage(stage, pass.chunk);
    if (pass.kind == PassKind::kForward) {
      return own == 0 ? 0 : EndOf(PassKind::kForward, own - 1, pass.micro_batch);
    }
    return own == o_.stages * o_.virtual_stages - 1
               ? EndOf(PassKind::kForward, own, pass.micro_batch)
               : EndOf(PassKind::kBackward, own + 1, pass.micro_batch);
  }

  std::optional<Choice> Choose(int r) {
    const Stage& stage = stages_[r];
    const bool can_fill = !stage.weights.empty();
    const Choice weight{.begin = stage.free_at, .weight = true};
    if (stage.next == stage.order.size()) return can_fill ? std::optional(weight) : std::nullopt;
    const ScheduledPass& next = stage.order[stage.next];
    if (next.kind == PassKind::kForward && stage.held >= stage.bound) {
      return can_fill ? std::optional(weight) : std::nullopt;
    }
    const int64_t inputs = InputsAt(next, r);
    const int64_t gap = inputs - stage.free_at;
    const bool fill =
        can_fill &&
        (inputs < 0 || (gap > 0 && 2 * gap >= patience_ * o_.durations.backward_weight));
    if (fill) return Choice{.begin = stage.free_at, .weight = true, .filler = true};
    if (inputs < 0) return std::nullopt;
    return Choice{.begin = std::max(inputs, stage.free_at)};
  }

  void Start(int r, int64_t begin, bool weight) {
    Stage& stage = stages_[r];
    ScheduledPass pass;
    if (weight) {
      pass = stage.weights.front();
      stage.weights.pop_front();
      pass.kind = PassKind::kBackwardWeight;
    } else {
      pass = stage.order[stage.next++];
    }
    const PassDurations& d = o_.durations;
    int64_t duration = d.backward_weight;
    if (pass.kind == PassKind::kForward) duration = d.forward;
    if (pass.kind == PassKind::kBackward) {
      duration = d.backward_input + (o_.split() ? 0 : d.backward_weight);
    }
    pass.begin = begin;
    pass.end = stage.free_at = begin + duration;
    if (!weight) EndOf(pass.kind, o_.virtual_stage(r, pass.chunk), pass.micro_batch) = pass.end;
    if (pass.kind == PassKind::kBackward && o_.split()) {
      stage.weights.push_back(pass);
    } else {
      stage.held += pass.kind == PassKind::kForward ? 1 : -1;
    }
    stage.done.push_back(pass);
  }

  const ScheduleOptions& o_;
  const int patience_;
  std::vector<Stage> stages_;
  std::vector<std::vector<int64_t>> ends_;  // [2 · virtual stage + backward][micro-batch]
};

}  // namespace

int InFlightBound(const ScheduleOptions& options, int stage) {
  // What the first stage holds anyway every stage may hold: that is what lets later ones put weight
  // gradients off.
  const int ahead = WarmUp(options, options.split() ? 0 : stage);
  return std::min(ahead + 1, options.micro_batches * options.virtual_stages);
}

absl::StatusOr<Schedule> BuildSchedule(const ScheduleOptions& options) {
  RETURN_IF_ERROR(Check(options));
  ASSIGN_OR_RETURN(Schedule best, Player(options, 2).Run());
  if (!options.split()) return best;
  // Filling only gaps that are large enough is best where a weight gradient takes no longer than a
  // forward; otherwise more eager ways can be.
  for (const int patience : {1, 0}) {
    ASSIGN_OR_RETURN(Schedule other, Player(options, patience).Run());
    if (other.makespan < best.makespan) best = std::move(other);
  }
  return best;
}

}  // namespace strata::program

#include "program/readers/timeline.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "ops/table.h"
#include "program/passes/expand.h"
#include "program/readers/lateness.h"

namespace strata::program {
namespace {

constexpr int kSteps = 4;  // the first fills what overlaps the boundary; the last two measure
// Of walks with what streams add to each other. What they add shrinks by the loss itself from each
// to the next, so that after these less than 1 % of it is missing where half is lost.
constexpr int kRounds = 7;
constexpr double kSettled = 1e-4;  // of all that is busy: less changed from one walk to the next

double Traffic(const Op& op) {
  if (const auto cost = ops::EntryOf(op.kind).cost(op); cost.ok()) return cost->bytes;
  int64_t bytes = 0;
  for (const Operand& operand : op.operands) {
    bytes += operand.bytes * (operand.access == Access::kAccumulate ? 2 : 1);
  }
  return static_cast<double>(bytes);
}

double ActionSeconds(const CostModel& costs, const Mesh& mesh, const ProgramSet& set,
                     const Program& program, const Action& action) {
  const GroupSpan group = mesh.SpanOf(action.communication.group);
  switch (action.mechanism) {
    case Mechanism::kCall: {
      const bool on_host = !action.operands.empty() && action.operands[0].slot >= 0 &&
                           set.slot(program, action.operands[0].slot).tier == Tier::kHost;
      return on_host ? costs.HostOpSeconds(*action.op) : costs.OpSeconds(*action.op);
    }
    case Mechanism::kCollective:
      return costs.CollectiveSeconds(action.communication, group);
    case Mechanism::kSend:
    case Mechanism::kReceive:
      return costs.MessageSeconds(action.communication, group);
    case Mechanism::kTransfer: {
      const Operand& from = action.operands[0];
      return costs.TransferSeconds(set.slot(program, from.slot).tier,
                                   set.slot(program, action.operands[1].slot).tier, from.bytes);
    }
    case Mechanism::kSignal:
      return 0;
  }
  return 0;
}

Interference BesideOthers(const CostModel& costs, const ProgramSet& set, const Program& program,
                          const Action& action) {
  if (action.is_communication()) return costs.Beside(action.communication);
  if (action.mechanism != Mechanism::kTransfer) return {};
  const auto tier = [&](int operand) {
    return set.slot(program, action.operands[operand].slot).tier;
  };
  return {.stretch = costs.BothWays(tier(0), tier(1))};
}

double EndOfStep(const RankTimes& times, int step) {
  const size_t actions = times.expanded->actions.size();
  double end = 0;
  for (size_t a = 0; a < actions; ++a) {
    if (times.expanded->actions[a].stream == Stream::kCompute)
      end = std::max(end, times.spans[step * actions + a].end);
  }
  return end;
}

// Of all actions together.
double BusySeconds(const MachineResult& walked) {
  double busy = 0;
  for (const std::vector<Span>& spans : walked.spans) {
    for (const Span& span : spans) busy += span.end - span.begin;
  }
  return busy;
}

int PurposeOf(const RankTimes& times, const Action& action) {
  return static_cast<int>(times.program->instructions[action.instruction].purpose);
}

// Compute stood still from `free_since` until the last of what the action waited for had ended, and
// that one is to blame.
void CountExposed(const RankTimes& times, size_t index, double free_since, RankTimeline& summary) {
  const std::vector<Action>& actions = times.expanded->actions;
  double latest = free_since;
  int blamed = -1;
  for (const ActionDependency& dependency : actions[index].dependencies) {
    const size_t step = kSteps - 1 - dependency.steps_back;
    const double end = times.spans[step * actions.size() + dependency.action].end;
    if (end <= latest) continue;
    latest = end;
    blamed = PurposeOf(times, actions[dependency.action]);
  }
  if (blamed >= 0) summary.exposed[blamed] += latest - free_since;
}

RankTimeline Summarise(const RankTimes& times) {
  RankTimeline summary;
  const size_t actions = times.expanded->actions.size();
  double free_since = EndOfStep(times, kSteps - 2);
  summary.step_seconds = EndOfStep(times, kSteps - 1) - free_since;
  for (size_t a = 0; a < actions; ++a) {
    const Action& action = times.expanded->actions[a];
    const Span& span = times.spans[(kSteps - 1) * actions + a];
    const int purpose = PurposeOf(times, action);
    if (action.stream != Stream::kCompute) {
      summary.background[purpose] += span.end - span.begin;
      continue;
    }
    CountExposed(times, a, free_since, summary);
    free_since = span.end;
    summary.compute[purpose] += span.end - span.begin;
    summary.compute_seconds += span.end - span.begin;
  }
  summary.exposed_seconds = std::max(0.0, summary.step_seconds - summary.compute_seconds);
  return summary;
}

// Costs of the actions of the ranks that are walked: one of each stage.
class Pricing {
 public:
  Pricing(const std::vector<const ProgramSet*>& stages, const std::string& name,
          const std::vector<ExpandedProgram>& expanded, const Mesh& mesh, const CostModel& costs)
      : costs_(costs), stages_(stages), update_stretch_(costs.UpdateStretch()) {
    for (size_t s = 0; s < stages.size(); ++s) {
      const Program& program = *stages[s]->find(name);
      std::vector<double>& alone = alone_.emplace_back();
      std::vector<Interference>& beside = beside_.emplace_back();
      for (const Action& action : expanded[s].actions) {
        alone.push_back(ActionSeconds(costs, mesh, *stages[s], program, action));
        beside.push_back(BesideOthers(costs, *stages[s], program, action));
        disturbs_ |=
            beside.back().any() || (update_stretch_ > 1 && action.stream == Stream::kUpdate) ||
            action.stream == Stream::kUpdateRead || action.stream == Stream::kUpdateWrite ||
            (Meets(s, action) && costs.LatenessSeconds(1) > 0);
      }
    }
  }

  bool disturbs() const { return disturbs_; }

  double Of(const WalkedAction& what) const {
    if (!disturbed_.empty()) return disturbed_[what.rank][what.node];
    return alone_[what.rank][what.node % alone_[what.rank].size()];
  }

  void Disturb(const MachineResult& walked) {
    disturbed_.resize(walked.spans.size());
    late_.resize(walked.spans.size());
    for (size_t r = 0; r < walked.spans.size(); ++r) {
      const std::vector<Action>& actions = walked.stages[r].actions;
      // Who waits for another neither moves bytes nor costs compute anything.
      std::vector<Span> at_work = walked.spans[r];
      for (size_t node = 0; node < late_[r].size(); ++node) at_work[node].begin += late_[r][node];
      disturbed_[r] = Disturbed(actions, at_work, alone_[r], beside_[r], update_stretch_);
      late_[r] = Lateness(actions, walked.spans[r], [&](size_t action, double apart) {
        return Meets(r, actions[action]) ? costs_.LatenessSeconds(apart) : 0;
      });
      for (size_t node = 0; node < late_[r].size(); ++node) disturbed_[r][node] += late_[r][node];
    }
  }

 private:
  // Of a message one side waits for the other by the schedule.
  bool Meets(size_t stage, const Action& action) const {
    return action.mechanism == Mechanism::kCollective &&
           stages_[stage]->groups.of(action.communication.group) > 1;
  }

  const CostModel& costs_;
  const std::vector<const ProgramSet*>& stages_;
  std::vector<std::vector<double>> alone_;         // by stage and action
  std::vector<std::vector<Interference>> beside_;  // likewise
  std::vector<std::vector<double>> disturbed_;     // by stage, step and action
  std::vector<std::vector<double>> late_;          // likewise: what of it others are late
  const double update_stretch_;
  bool disturbs_ = false;
};

}  // namespace

double RateCostModel::OpSeconds(const Op& op) const {
  return std::max(op.flops / rates_.flops_per_second, Traffic(op) / rates_.memory_bytes_per_second);
}

double RateCostModel::CollectiveSeconds(const Communication& communication, GroupSpan group) const {
  if (group.ranks < 2) return 0;
  const double bytes = static_cast<double>(communication.bytes), others = group.ranks - 1;
  const double turns =
      std::bit_width(static_cast<unsigned>(group.ranks - 1));  // of a binomial tree
  double moved = 0, latencies = 1;
  switch (communication.op) {
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
      moved = others * bytes;
      break;
    case CollectiveOp::kAllReduce:
      moved = 2 * others / group.ranks * bytes;
      latencies = 2;
      break;
    case CollectiveOp::kBroadcast:
      moved = turns * bytes;
      latencies = turns;
      break;
    case CollectiveOp::kRotate:
      moved = bytes;
      break;
    case CollectiveOp::kBarrier:
      latencies = turns;
      break;
  }
  return latencies * rates_.link_latency_seconds + moved / rates_.link_bytes_per_second;
}

double RateCostModel::MessageSeconds(const Communication& communication, GroupSpan) const {
  return rates_.link_latency_seconds +
         static_cast<double>(communication.bytes) / rates_.link_bytes_per_second;
}

double RateCostModel::TransferSeconds(Tier, Tier, int64_t bytes) const {
  return static_cast<double>(bytes) / rates_.transfer_bytes_per_second;
}

absl::StatusOr<Timeline> PredictTimeline(const std::vector<const ProgramSet*>& stages,
                                         const std::string& program, const Mesh& mesh,
                                         const CostModel& costs) {
  if (stages.empty()) return absl::InvalidArgumentError("no stages");
  std::vector<ExpandedProgram> expanded;
  for (const ProgramSet* stage : stages) {
    const Program* const found = stage->find(program);
    if (found == nullptr) {
      return absl::NotFoundError(absl::StrCat("a stage has no program ", program));
    }
    expanded.push_back(Expand(*stage, *found));
  }
  Pricing pricing(stages, program, expanded, mesh, costs);
  const ActionCost cost = [&](const WalkedAction& what) { return pricing.Of(what); };
  Timeline timeline;
  ASSIGN_OR_RETURN(timeline.walked,
                   WalkExpanded(stages, program, std::move(expanded), mesh, kSteps, cost));
  double before = BusySeconds(timeline.walked), changed = 1;
  for (int round = 0; pricing.disturbs() && round < kRounds && changed > kSettled; ++round) {
    pricing.Disturb(timeline.walked);
    ASSIGN_OR_RETURN(
        timeline.walked,
        WalkExpanded(stages, program, std::move(timeline.walked.stages), mesh, kSteps, cost));
    const double now = BusySeconds(timeline.walked);
    changed = std::abs(now - before) / std::max(now, 1e-30);
    before = now;
  }
  // Ranks of a stage share their times.
  std::map<const Span*, RankTimeline> summaries;
  for (const RankTimes& times : timeline.walked.ranks) {
    const auto [found, first] = summaries.try_emplace(times.spans.data());
    if (first) found->second = Summarise(times);
    timeline.ranks.push_back(found->second);
    timeline.step_seconds = std::max(timeline.step_seconds, found->second.step_seconds);
  }
  return timeline;
}

std::string Timeline::Draw(int rank, int columns) const {
  const RankTimes& times = walked.ranks[rank];
  const size_t actions = times.expanded->actions.size();
  const double begin = EndOfStep(times, kSteps - 2), end = EndOfStep(times, kSteps - 1);
  std::string text = absl::StrFormat("rank %d, one step of %.3g s\n", rank, end - begin);
  for (int s = 0; s < kStreamCount; ++s) {
    std::string row(columns, '.');
    bool used = false;
    for (size_t n = 0; n < times.spans.size(); ++n) {
      const Action& action = times.expanded->actions[n % actions];
      if (static_cast<int>(action.stream) != s) continue;
      used = true;
      const Span& span = times.spans[n];
      if (span.end <= begin || span.begin >= end || span.end <= span.begin) continue;
      const auto column = [&](double at) {
        return static_cast<int>((std::clamp(at, begin, end) - begin) / (end - begin) * columns);
      };
      const char letter = Name(times.program->instructions[action.instruction].purpose)[0];
      for (int c = column(span.begin);
           c < std::max(column(span.begin) + 1, column(span.end)) && c < columns; ++c) {
        row[c] = letter;
      }
    }
    if (used) absl::StrAppendFormat(&text, "%-10s |%s|\n", Name(static_cast<Stream>(s)), row);
  }
  return text;
}

}  // namespace strata::program

#include "program/readers/timeline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "ops/table.h"

namespace strata::program {
namespace {

constexpr int kSteps = 4;  // the first fills what overlaps the boundary; the last two measure

double Traffic(const Op& op) {
  if (const auto cost = ops::EntryOf(op.kind).cost(op); cost.ok()) return cost->bytes;
  int64_t bytes = 0;
  for (const Operand& operand : op.operands) {
    bytes += operand.bytes * (operand.access == Access::kAccumulate ? 2 : 1);
  }
  return static_cast<double>(bytes);
}

double ActionSeconds(const CostModel& costs, const ProgramSet& set, const Program& program,
                     const Action& action) {
  switch (action.mechanism) {
    case Mechanism::kCall:
      return costs.OpSeconds(*action.op);
    case Mechanism::kCollective:
      return costs.CollectiveSeconds(action.communication,
                                     set.groups.of(action.communication.group));
    case Mechanism::kSend:
    case Mechanism::kReceive:
      return costs.MessageSeconds(action.communication);
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

double EndOfStep(const RankTimes& times, int step) {
  const size_t actions = times.expanded->actions.size();
  double end = 0;
  for (size_t a = 0; a < actions; ++a) {
    if (times.expanded->actions[a].stream == Stream::kCompute)
      end = std::max(end, times.spans[step * actions + a].end);
  }
  return end;
}

RankTimeline Summarise(const RankTimes& times) {
  RankTimeline summary;
  const size_t actions = times.expanded->actions.size();
  summary.step_seconds = EndOfStep(times, kSteps - 1) - EndOfStep(times, kSteps - 2);
  for (size_t a = 0; a < actions; ++a) {
    const Action& action = times.expanded->actions[a];
    const Span& span = times.spans[(kSteps - 1) * actions + a];
    const Purpose purpose = times.program->instructions[action.instruction].purpose;
    summary.purpose_seconds[static_cast<int>(purpose)] += span.end - span.begin;
    if (action.stream == Stream::kCompute) summary.compute_seconds += span.end - span.begin;
  }
  summary.exposed_seconds = std::max(0.0, summary.step_seconds - summary.compute_seconds);
  return summary;
}

}  // namespace

double RateCostModel::OpSeconds(const Op& op) const {
  return std::max(op.flops / rates_.flops_per_second, Traffic(op) / rates_.memory_bytes_per_second);
}

double RateCostModel::CollectiveSeconds(const Communication& communication, int group_size) const {
  const double bytes = static_cast<double>(communication.bytes), others = group_size - 1;
  double moved = 0;
  switch (communication.op) {
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
      moved = others * bytes;
      break;
    case CollectiveOp::kAllReduce:
      moved = 2 * others / group_size * bytes;
      break;
    case CollectiveOp::kBroadcast:
      moved = group_size > 1 ? bytes : 0;
      break;
    case CollectiveOp::kRotate:
      return group_size < 2 ? 0
                            : rates_.link_latency_seconds + bytes / rates_.link_bytes_per_second;
    case CollectiveOp::kBarrier:
      break;
  }
  return group_size < 2
             ? 0
             : rates_.link_latency_seconds * others + moved / rates_.link_bytes_per_second;
}

double RateCostModel::MessageSeconds(const Communication& communication) const {
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
  // Costs need slots' tiers and group sizes, which the stages of one job share.
  const auto cost = [&](const Program& running, const Action& action) {
    for (const ProgramSet* stage : stages) {
      if (stage->find(running.name) == &running)
        return ActionSeconds(costs, *stage, running, action);
    }
    return 0.0;
  };
  Timeline timeline;
  ASSIGN_OR_RETURN(timeline.walked, WalkPrograms(stages, program, mesh, kSteps, cost));
  for (const RankTimes& times : timeline.walked.ranks) {
    timeline.ranks.push_back(Summarise(times));
    timeline.step_seconds = std::max(timeline.step_seconds, timeline.ranks.back().step_seconds);
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

#include "program/passes/lifetimes.h"

#include <algorithm>
#include <limits>

namespace strata::program {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

bool Hides(const ProgramSet& set, const Instruction& instruction) {
  if (instruction.mechanism != Mechanism::kCall) return false;
  const std::vector<Op>& ops = set.templates[instruction.template_index].ops;
  return std::any_of(ops.begin(), ops.end(), [](const Op& op) { return Hides(op); });
}

}  // namespace

bool Hides(const Op& op) {
  double bytes = 0;
  for (const Operand& operand : op.operands) bytes += static_cast<double>(operand.bytes);
  return op.flops > bytes;
}

void Lifetimes::Include(int slot, int step) {
  if (slot < first_) return;
  Interval& interval = intervals_[slot - first_];
  if (interval.last < interval.first) interval.lane = static_cast<int>(streams_[step]);
  interval.Include(step);
  if (streams_[step] == main_) return;
  std::vector<int>& users = users_[slot - first_];
  const auto same = std::find_if(users.begin(), users.end(),
                                 [&](int user) { return streams_[user] == streams_[step]; });
  if (same == users.end()) {
    users.push_back(step);
  } else {
    *same = step;
  }
}

void Lifetimes::Add(const LifetimeStep& step, const std::vector<Operand>& operands,
                    const GroupSizes& groups, int frame) {
  const int index = order_.Add(step.stream, step.before);
  streams_.push_back(step.stream);
  awaited_by_.push_back(kNever);
  if (step.hides) hiding_.push_back(index);
  std::vector<int> conflicts;
  for (const Operand& operand : operands) {
    Include(operand.slot, index);
    if (operand.slot >= static_cast<int>(shared_.size()) || !shared_[operand.slot]) continue;
    const int64_t moved = operand.shard_stride * (groups.of(operand.shard_group) - 1);
    // Bytes of a slot: what they wait for holds wherever the slot lies.
    map_.Use(2 * operand.slot + operand.version, operand.offset,
             operand.offset + moved + operand.bytes, operand.access, index, step.stream, conflicts);
  }
  if (frame >= 0) Include(frame, index);
  for (const int earlier : conflicts) order_.AddEdge(earlier, index);
  if (step.stream == main_) {
    mains_.push_back(index);
    Await(index);
  } else {
    pending_[static_cast<int>(step.stream)].push_back(index);
  }
}

void Lifetimes::Await(int step) {
  for (std::deque<int>& pending : pending_) {
    while (!pending.empty() && order_.HappensBefore(pending.front(), step)) {
      awaited_by_[pending.front()] = step;
      pending.pop_front();
    }
  }
}

int Lifetimes::HeldUntil(int step, int tail) const {
  if (horizon_ == 0 || mains_.empty()) return step;
  const auto hiding = std::upper_bound(hiding_.begin(), hiding_.end(), step);
  if (hiding_.end() - hiding >= horizon_) {
    return std::max(step, std::min(hiding[horizon_ - 1], awaited_by_[step] - 1));
  }
  if (awaited_by_[step] != kNever) return std::max(step, awaited_by_[step] - 1);
  const auto next = std::upper_bound(mains_.begin(), mains_.end(), step);
  return std::max(step, mains_.end() - next > tail ? next[tail - 1] : mains_.back());
}

std::vector<Interval> Lifetimes::Finish(int tail) const {
  std::vector<Interval> intervals = intervals_;
  for (size_t s = 0; s < intervals.size(); ++s) {
    Interval& interval = intervals[s];
    int holders = 0;
    for (const int user : users_[s]) {
      const int until = HeldUntil(user, tail);
      if (until <= interval.last) continue;
      interval.held = std::max(interval.held, until);
      interval.held_by = ++holders > 1 ? -1 : static_cast<int>(streams_[user]);
    }
  }
  return intervals;
}

Lifetimes LifetimesOf(const ProgramSet& set, const Program& program, int horizon) {
  Lifetimes lifetimes(static_cast<int>(set.slots.size()), static_cast<int>(program.slots.size()),
                      Stream::kCompute, horizon);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.stream != Stream::kCompute) lifetimes.Share(instruction.operands);
  }
  for (const Instruction& instruction : program.instructions) {
    LifetimeStep step{.stream = instruction.stream,
                      .hides = instruction.stream == Stream::kCompute && Hides(set, instruction)};
    for (const Dependency& dependency : instruction.dependencies) {
      if (dependency.steps_back == 0) step.before.push_back(dependency.instruction);
    }
    lifetimes.Add(step, instruction.operands, set.groups, instruction.frame);
  }
  return lifetimes;
}

}  // namespace strata::program

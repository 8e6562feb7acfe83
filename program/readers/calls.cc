#include "program/readers/calls.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "program/readers/call_effects.h"

namespace strata::program {
namespace {

class Units {
 public:
  Units(const ProgramSet& set, const Program& program, const ShardIndices& indices)
      : set_(set), program_(program), indices_(indices), extents_(set.templates.size()) {}

  std::optional<ExpandedProgram> Run() {
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      Action action{.instruction = static_cast<int>(i),
                    .mechanism = instruction.mechanism,
                    .stream = instruction.stream,
                    .communication = instruction.communication,
                    .predicate = instruction.predicate};
      for (const Dependency& d : instruction.dependencies)
        action.dependencies.push_back({d.instruction, d.steps_back});
      if (instruction.mechanism == Mechanism::kCall) {
        if (!AddEffects(instruction, action.operands)) return std::nullopt;
      } else {
        for (const Operand& operand : instruction.operands)
          action.operands.push_back(Here(operand));
      }
      if (instruction.predicate.has_value()) {
        action.operands.push_back({.slot = set_.scalars,
                                   .offset = ScalarOffset(instruction.predicate->scalar),
                                   .bytes = 8});
      }
      result_.actions.push_back(std::move(action));
    }
    return std::move(result_);
  }

 private:
  using Key = std::pair<int, std::vector<BoundFormal>>;
  struct Extent {
    int64_t begin = 0, end = 0;  // in the formal; none: not touched
  };

  // The operand on this rank.
  Operand Here(Operand operand) const {
    if (operand.shard_group != Group::kNone) {
      const int last = set_.groups.of(operand.shard_group) - 1;
      operand.offset += operand.shard_stride * std::min(indices_(operand.shard_group), last);
      operand.shard_group = Group::kNone;
      operand.shard_stride = 0;
    }
    return operand;
  }

  bool AddEffects(const Instruction& call, std::vector<Operand>& operands) {
    Key key{call.template_index, BindFormals(call)};
    const auto [known, fresh] = known_.try_emplace(std::move(key));
    if (fresh) {
      known->second = FollowCall(set_.templates[call.template_index], known->first.second,
                                 set_.groups, indices_);
    }
    if (!known->second.has_value()) return false;
    const CallEffects& effects = *known->second;
    operands.reserve(effects.reads.size() + effects.writes.size() + 2);
    for (const FormalEffect& read : effects.reads)
      operands.push_back(Effect(call, read, Access::kRead));
    for (const FormalEffect& write : effects.writes)
      operands.push_back(Effect(call, write, Access::kWrite));
    if (effects.frame_end > effects.frame_begin) {
      operands.push_back({.slot = call.frame,
                          .offset = effects.frame_begin,
                          .bytes = effects.frame_end - effects.frame_begin,
                          .access = Access::kWrite});
    }
    return true;
  }

  Operand Effect(const Instruction& call, const FormalEffect& effect, Access access) const {
    Operand operand = Here(call.operands[effect.formal]);
    operand.offset += effect.begin;
    operand.bytes = effect.end - effect.begin;
    operand.access = access;
    operand.partial = effect.partial;
    return operand;
  }

  // What the ops touch of each formal, wherever the rank's parts are.
  const std::vector<Extent>& ExtentsOf(int index) {
    std::vector<Extent>& extents = extents_[index];
    const Template& tmpl = set_.templates[index];
    if (extents.size() == tmpl.formals.size()) return extents;
    extents.resize(tmpl.formals.size());
    for (const Op& op : tmpl.ops) {
      for (const Operand& o : op.operands) {
        if (o.slot >= static_cast<int>(extents.size()) || o.bytes <= 0) continue;
        const int64_t moved = o.shard_stride * (set_.groups.of(o.shard_group) - 1);
        const int64_t begin = std::min(o.offset, o.offset + moved);
        const int64_t end = std::max(o.offset, o.offset + moved) + o.bytes;
        Extent& extent = extents[o.slot];
        const bool first = extent.end == extent.begin;
        extent = {first ? begin : std::min(extent.begin, begin),
                  first ? end : std::max(extent.end, end)};
      }
    }
    return extents;
  }

  // Formals whose bytes meet get one space.
  std::vector<BoundFormal> BindFormals(const Instruction& call) {
    const std::vector<Extent>& extents = ExtentsOf(call.template_index);
    const int count = static_cast<int>(call.operands.size());
    std::vector<BoundFormal> bound(count);
    at_.resize(count);
    for (int f = 0; f < count; ++f) {
      const Operand& operand = call.operands[f];
      at_[f] = set_.placement(program_, operand.slot).at(0, operand.version) + Here(operand).offset;
      bound[f] = {.space = f,
                  .slot = f,
                  .partial = operand.partial,
                  .sharded = operand.shard_group != Group::kNone};
    }
    order_.resize(count);
    std::iota(order_.begin(), order_.end(), 0);
    const auto tier = [&](int f) { return set_.slot(program_, call.operands[f].slot).tier; };
    const auto begin = [&](int f) { return at_[f] + extents[f].begin; };
    std::sort(order_.begin(), order_.end(), [&](int a, int b) {
      return std::tuple(tier(a), begin(a), a) < std::tuple(tier(b), begin(b), b);
    });
    int leader = -1;  // of the space at hand
    int64_t end = 0;
    for (const int f : order_) {
      if (extents[f].end == extents[f].begin) continue;
      const bool joins = leader >= 0 && tier(leader) == tier(f) && begin(f) < end;
      end = joins ? std::max(end, at_[f] + extents[f].end) : at_[f] + extents[f].end;
      if (!joins) leader = f;
      if (joins) Join(call, leader, f, bound);
    }
    return bound;
  }

  // Within a space places, slots and versions tell formals apart.
  void Join(const Instruction& call, int leader, int f, std::vector<BoundFormal>& bound) const {
    bound[leader].version = call.operands[leader].version;
    bound[f].space = bound[leader].space;
    bound[f].begin = at_[f] - at_[leader];
    bound[f].version = call.operands[f].version;
    for (int other = 0; other < static_cast<int>(bound.size()); ++other) {
      if (call.operands[other].slot != call.operands[f].slot) continue;
      bound[f].slot = other;  // the first that names it
      break;
    }
    for (int other = 0; other < static_cast<int>(bound.size()); ++other) {
      if (call.operands[other].slot != call.operands[leader].slot) continue;
      bound[leader].slot = other;
      break;
    }
  }

  const ProgramSet& set_;
  const Program& program_;
  const ShardIndices& indices_;
  ExpandedProgram result_;
  std::map<Key, std::optional<CallEffects>> known_;
  std::vector<std::vector<Extent>> extents_;  // per template
  std::vector<int64_t> at_;                   // of the call at hand: where formals lie
  std::vector<int> order_;
};

}  // namespace

std::optional<ExpandedProgram> CallsAsUnits(const ProgramSet& set, const Program& program,
                                            const ShardIndices& indices) {
  return Units(set, program, indices).Run();
}

}  // namespace strata::program

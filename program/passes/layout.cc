#include "program/passes/layout.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "program/passes/expand.h"
#include "program/passes/hazards.h"
#include "program/passes/order.h"
#include "program/passes/placement.h"

namespace strata::program {
namespace {

// Checks one operand against the size of what it names.
absl::Status CheckRange(const Operand& operand, int64_t bytes, const GroupSizes& groups,
                        const std::string& where) {
  const int64_t moved = operand.shard_stride * (groups.of(operand.shard_group) - 1);
  if (operand.offset >= 0 && operand.bytes >= 0 && operand.shard_stride >= 0 &&
      operand.offset + moved + operand.bytes <= bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(where, ": operand [", operand.offset, ", ",
                                                 operand.offset + moved + operand.bytes,
                                                 ") is outside its slot of ", bytes, " bytes"));
}

absl::Status CheckSlot(const Slot& slot) {
  if (slot.bytes >= 0 && slot.alignment > 0 && (slot.alignment & (slot.alignment - 1)) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("slot '", slot.name, "' has ", slot.bytes,
                                                 " bytes aligned to ", slot.alignment,
                                                 ", which is no power of two"));
}

absl::Status CheckTemplate(const Template& tmpl, const GroupSizes& groups) {
  for (const Slot& local : tmpl.locals) RETURN_IF_ERROR(CheckSlot(local));
  for (size_t o = 0; o < tmpl.ops.size(); ++o) {
    const std::string where =
        absl::StrCat("template ", tmpl.name, ", op ", o, " (", Name(tmpl.ops[o].kind), ")");
    for (const Operand& operand : tmpl.ops[o].operands) {
      const int formals = static_cast<int>(tmpl.formals.size());
      const int locals = static_cast<int>(tmpl.locals.size());
      if (operand.slot < 0 || operand.slot >= formals + locals) {
        return absl::InvalidArgumentError(absl::StrCat(where, ": no slot ", operand.slot));
      }
      RETURN_IF_ERROR(CheckRange(operand,
                                 operand.slot < formals ? tmpl.formals[operand.slot].bytes
                                                        : tmpl.locals[operand.slot - formals].bytes,
                                 groups, where));
    }
    for (const int earlier : tmpl.ops[o].dependencies) {
      if (earlier >= 0 && earlier < static_cast<int>(o)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": depends on op ", earlier, ", which does not come before it"));
    }
  }
  return absl::OkStatus();
}

// A call's template and what it binds.
absl::Status CheckCall(const ProgramSet& set, const Instruction& call, const std::string& where) {
  if (call.template_index < 0 || call.template_index >= static_cast<int>(set.templates.size())) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": no template ", call.template_index));
  }
  const Template& tmpl = set.templates[call.template_index];
  if (tmpl.ops.empty()) {
    // What waits for such a call would wait for nothing.
    return absl::InvalidArgumentError(absl::StrCat(where, ": template ", tmpl.name, " has no ops"));
  }
  if (tmpl.formals.size() != call.operands.size()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": template ", tmpl.name, " has ",
                                                   tmpl.formals.size(), " formals, the call binds ",
                                                   call.operands.size()));
  }
  for (size_t f = 0; f < tmpl.formals.size(); ++f) {
    if (tmpl.formals[f].bytes <= call.operands[f].bytes) continue;
    return absl::InvalidArgumentError(absl::StrCat(where, ": formal ", tmpl.formals[f].name,
                                                   " needs ", tmpl.formals[f].bytes,
                                                   " bytes, bound are ", call.operands[f].bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckDependencies(const Program& program, int index, const std::string& where) {
  for (const Dependency& dependency : program.instructions[index].dependencies) {
    const int limit =
        dependency.steps_back == 0 ? index : static_cast<int>(program.instructions.size());
    if (dependency.instruction >= 0 && dependency.instruction < limit &&
        (dependency.steps_back == 0 || dependency.steps_back == 1)) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": depends on instruction ", dependency.instruction, ", ",
                     dependency.steps_back, " steps back, which does not come before it"));
  }
  return absl::OkStatus();
}

absl::Status CheckProgram(const ProgramSet& set, const Program& program) {
  const int slots = static_cast<int>(set.slots.size() + program.slots.size());
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const std::string where =
        absl::StrCat("program ", program.name, ", instruction ", i, " (", instruction.label, ")");
    for (const Operand& operand : instruction.operands) {
      if (operand.slot < 0 || operand.slot >= slots) {
        return absl::InvalidArgumentError(absl::StrCat(where, ": no slot ", operand.slot));
      }
      RETURN_IF_ERROR(
          CheckRange(operand, set.slot(program, operand.slot).bytes, set.groups, where));
    }
    RETURN_IF_ERROR(CheckDependencies(program, static_cast<int>(i), where));
    if (instruction.predicate.has_value() && set.scalars < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": has a predicate, but there is no scalar block"));
    }
    if (instruction.mechanism == Mechanism::kCall) {
      RETURN_IF_ERROR(CheckCall(set, instruction, where));
    }
  }
  return absl::OkStatus();
}

// A stream that no op of the template names. It stands for the caller's, which is unknown here.
Stream StandInForCaller(const Template& tmpl) {
  for (int s = 0; s < kStreamCount; ++s) {
    const Stream stream = static_cast<Stream>(s);
    if (std::none_of(tmpl.ops.begin(), tmpl.ops.end(),
                     [&](const Op& op) { return op.stream == stream; })) {
      return stream;
    }
  }
  return Stream::kCompute;
}

// Places locals in the frame by their uses in op order, then orders ops on different streams that
// share bytes.
void LayOutTemplate(Template& tmpl, const GroupSizes& groups) {
  const int formals = static_cast<int>(tmpl.formals.size());
  std::vector<Interval> intervals(tmpl.locals.size());
  for (size_t l = 0; l < tmpl.locals.size(); ++l) {
    intervals[l].bytes = tmpl.locals[l].bytes;
    intervals[l].alignment = tmpl.locals[l].alignment;
  }
  for (size_t o = 0; o < tmpl.ops.size(); ++o) {
    for (const Operand& operand : tmpl.ops[o].operands) {
      if (operand.slot >= formals) intervals[operand.slot - formals].Include(static_cast<int>(o));
    }
  }
  Packing packing = Pack(intervals);
  tmpl.local_offsets = std::move(packing.offsets);
  tmpl.frame_bytes = common::RoundUp(packing.bytes, kSlotAlignment);

  const Stream caller = StandInForCaller(tmpl);
  HazardMap map;
  Order order;
  for (size_t o = 0; o < tmpl.ops.size(); ++o) {
    Op& op = tmpl.ops[o];
    const Stream stream = op.stream == Stream::kCaller ? caller : op.stream;
    const int node = order.Add(stream, op.dependencies);
    std::vector<int> conflicts;
    for (const Operand& operand : op.operands) {
      const bool local = operand.slot >= formals;
      const int64_t begin =
          operand.offset + (local ? tmpl.local_offsets[operand.slot - formals] : 0);
      const int64_t moved = operand.shard_stride * (groups.of(operand.shard_group) - 1);
      map.Use(local ? -1 : operand.slot, begin, begin + moved + operand.bytes, operand.access, node,
              stream, conflicts);
    }
    std::sort(conflicts.rbegin(),
              conflicts.rend());  // the newest first: it often implies the others
    for (const int earlier : conflicts) {
      if (order.HappensBefore(earlier, node)) continue;
      op.dependencies.push_back(earlier);
      order.AddEdge(earlier, node);
    }
  }
}

void AddFrames(ProgramSet& set, Program& program, Tier tier) {
  for (Instruction& instruction : program.instructions) {
    if (instruction.mechanism != Mechanism::kCall) continue;
    const Template& tmpl = set.templates[instruction.template_index];
    if (tmpl.frame_bytes == 0) continue;
    int64_t alignment = kSlotAlignment;
    for (const Slot& local : tmpl.locals) alignment = std::max(alignment, local.alignment);
    instruction.frame = static_cast<int>(set.slots.size() + program.slots.size());
    program.slots.push_back({.name = absl::StrCat("locals of ", instruction.label),
                             .tier = tier,
                             .klass = SlotClass::kWorkspace,
                             .bytes = tmpl.frame_bytes,
                             .alignment = alignment});
  }
}

// Gradients that were clipped were finite, so that the step is applied.
bool OnlyWhereApplied(const Action& action) {
  return action.predicate.has_value() && !action.predicate->negated &&
         (action.predicate->scalar == Scalar::kApply ||
          action.predicate->scalar == Scalar::kClipped);
}

// Which versioned slots need bytes of their own for each version: those of which something uses
// version s, in list order, on bytes of which s+1 has begun to be written (one action may read s
// and write s+1 on the very same bytes), or of which s+1 is written even where the step will not be
// applied, so that s must stay.
void FindSlotsWithTwoCopies(const ProgramSet& set, const Program& program,
                            std::vector<bool>& two_copies) {
  std::vector<std::vector<const Operand*>> next_begun(set.slots.size());
  const auto begin = [](const Operand& o) { return o.offset; };
  const auto end = [&](const Operand& o) {
    return o.offset + o.shard_stride * (set.groups.of(o.shard_group) - 1) + o.bytes;
  };
  const ExpandedProgram expanded = Expand(set, program);
  for (const Action& action : expanded.actions) {
    const auto is_versioned = [&](const Operand& operand) {
      return operand.slot < static_cast<int>(set.slots.size()) && set.slots[operand.slot].versioned;
    };
    for (const Operand& own : action.operands) {
      if (!is_versioned(own) || own.version != 0) continue;
      const auto overlaps = [&](const Operand* next) {
        return begin(own) < end(*next) && begin(*next) < end(own);
      };
      const auto& begun = next_begun[own.slot];
      if (std::any_of(begun.begin(), begun.end(), overlaps)) two_copies[own.slot] = true;
      for (const Operand& next : action.operands) {
        const bool same = begin(own) == begin(next) && own.bytes == next.bytes &&
                          own.shard_group == next.shard_group &&
                          own.shard_stride == next.shard_stride;
        if (next.slot == own.slot && next.version == 1 && next.writes() && overlaps(&next) && !same)
          two_copies[own.slot] = true;
      }
    }
    for (const Operand& next : action.operands) {
      if (!is_versioned(next) || next.version != 1 || !next.writes()) continue;
      next_begun[next.slot].push_back(&next);
      if (!OnlyWhereApplied(action)) two_copies[next.slot] = true;
    }
  }
}

std::vector<Interval> TransientIntervals(const ProgramSet& set, const Program& program, Tier tier) {
  const int shared = static_cast<int>(set.slots.size());
  std::vector<Interval> intervals(program.slots.size());
  for (size_t s = 0; s < program.slots.size(); ++s) {
    if (program.slots[s].tier != tier) continue;
    intervals[s].bytes = program.slots[s].bytes;
    intervals[s].alignment = program.slots[s].alignment;
  }
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    for (const Operand& operand : instruction.operands) {
      if (operand.slot >= shared) intervals[operand.slot - shared].Include(static_cast<int>(i));
    }
    if (instruction.frame >= 0) intervals[instruction.frame - shared].Include(static_cast<int>(i));
  }
  return intervals;
}

void PlacePersistent(ProgramSet& set) {
  set.placements.assign(set.slots.size(), {});
  std::vector<bool> two_copies(set.slots.size(), false);
  if (std::any_of(set.slots.begin(), set.slots.end(), [](const Slot& s) { return s.versioned; })) {
    for (const Program& program : set.programs) FindSlotsWithTwoCopies(set, program, two_copies);
  }
  for (size_t s = 0; s < set.slots.size(); ++s) {
    const Slot& slot = set.slots[s];
    Placement& placement = set.placements[s];
    placement.copies = two_copies[s] ? 2 : 1;
    int64_t& next = set.arena_bytes[static_cast<int>(slot.tier)];
    placement.stride = common::RoundUp(slot.bytes, slot.alignment);
    placement.offset = common::RoundUp(next, slot.alignment);
    next = placement.offset + placement.stride * placement.copies;
  }
}

void PlaceTransient(ProgramSet& set) {
  const auto persistent = set.arena_bytes;
  for (Program& program : set.programs) {
    program.placements.assign(program.slots.size(), {});
    for (int t = 0; t < kTierCount; ++t) {
      const Packing packing = Pack(TransientIntervals(set, program, static_cast<Tier>(t)));
      int64_t alignment = kPageBytes;
      for (const Slot& slot : program.slots) alignment = std::max(alignment, slot.alignment);
      const int64_t base = common::RoundUp(persistent[t], alignment);
      for (size_t s = 0; s < program.slots.size(); ++s) {
        if (program.slots[s].tier == static_cast<Tier>(t))
          program.placements[s].offset = base + packing.offsets[s];
      }
      if (packing.bytes > 0)
        set.arena_bytes[t] = std::max(set.arena_bytes[t], base + packing.bytes);
    }
  }
  for (int64_t& bytes : set.arena_bytes) bytes = common::RoundUp(bytes, kPageBytes);
}

// Adds the dependencies that make the list order hold, on real addresses, over consecutive steps;
// `advances`: of which each leaves versioned slots at their next version.
class DependencyAdder {
 public:
  DependencyAdder(const ProgramSet& set, Program& program, bool advances)
      : set_(set), program_(program), advances_(advances) {}

  void Run() {
    int copies = 2;  // more of the same from then on, unless versions alternate between two places
    if (advances_ && HasTwoCopies(set_)) copies = 3;
    for (copy_ = 0; copy_ < copies; ++copy_) {
      for (size_t i = 0; i < program_.instructions.size(); ++i) Visit(static_cast<int>(i));
    }
  }

  static bool HasTwoCopies(const ProgramSet& set) {
    return std::any_of(set.placements.begin(), set.placements.end(),
                       [](const Placement& placement) { return placement.copies > 1; });
  }

 private:
  int count() const { return static_cast<int>(program_.instructions.size()); }
  int NodeOf(int instruction, int copy) const { return copy * count() + instruction; }

  void Use(const Operand& operand, int node, Stream stream, std::vector<int>& conflicts) {
    const Slot& slot = set_.slot(program_, operand.slot);
    const int64_t begin =
        set_.placement(program_, operand.slot).at(advances_ ? copy_ : 0, operand.version) +
        operand.offset;
    const int64_t moved = operand.shard_stride * (set_.groups.of(operand.shard_group) - 1);
    map_.Use(static_cast<int>(slot.tier), begin, begin + moved + operand.bytes, operand.access,
             node, stream, conflicts);
  }

  void Visit(int index) {
    Instruction& instruction = program_.instructions[index];
    std::vector<int> before;
    for (const Dependency& dependency : instruction.dependencies) {
      if (copy_ >= dependency.steps_back)
        before.push_back(NodeOf(dependency.instruction, copy_ - dependency.steps_back));
    }
    const int node = order_.Add(instruction.stream, before);
    std::vector<int> conflicts;
    for (const Operand& operand : instruction.operands)
      Use(operand, node, instruction.stream, conflicts);
    if (instruction.frame >= 0) {
      const Operand frame{.slot = instruction.frame,
                          .bytes = set_.slot(program_, instruction.frame).bytes,
                          .access = Access::kWrite};
      Use(frame, node, instruction.stream, conflicts);
    }
    if (instruction.predicate.has_value()) {
      Use({.slot = set_.scalars, .offset = ScalarOffset(instruction.predicate->scalar), .bytes = 8},
          node, instruction.stream, conflicts);
    }
    std::sort(conflicts.rbegin(), conflicts.rend());
    for (const int earlier : conflicts) {
      if (order_.HappensBefore(earlier, node)) continue;
      // Only the step before can be named. Its run of that instruction comes after the older one.
      const int steps_back = std::min(copy_ - earlier / count(), 1);
      instruction.dependencies.push_back({earlier % count(), steps_back});
      order_.AddEdge(NodeOf(earlier % count(), copy_ - steps_back), node);
    }
  }

  const ProgramSet& set_;
  Program& program_;
  const bool advances_;
  HazardMap map_;
  Order order_;
  int copy_ = 0;
};

}  // namespace

absl::Status LayOut(ProgramSet& set) {
  for (const Slot& slot : set.slots) RETURN_IF_ERROR(CheckSlot(slot));
  for (const Program& program : set.programs) {
    for (const Slot& slot : program.slots) RETURN_IF_ERROR(CheckSlot(slot));
  }
  for (const Template& tmpl : set.templates) RETURN_IF_ERROR(CheckTemplate(tmpl, set.groups));
  for (const Program& program : set.programs) RETURN_IF_ERROR(CheckProgram(set, program));
  for (Template& tmpl : set.templates) LayOutTemplate(tmpl, set.groups);
  set.arena_bytes = {};
  for (Program& program : set.programs) AddFrames(set, program, set.compute_tier);
  PlacePersistent(set);
  PlaceTransient(set);
  for (Program& program : set.programs) {
    const bool advances = AdvancesVersions(program);
    DependencyAdder(set, program, advances).Run();
    // Steps whose update is not applied leave versions where they are.
    if (advances && DependencyAdder::HasTwoCopies(set)) DependencyAdder(set, program, false).Run();
  }
  return absl::OkStatus();
}

}  // namespace strata::program

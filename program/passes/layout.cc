#include "program/passes/layout.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "program/passes/hazards.h"
#include "program/passes/order.h"
#include "program/passes/placement.h"

namespace strata::program {
namespace {

// Checks one operand against the size of what it names.
absl::Status CheckRange(const Operand& operand, int64_t bytes, const GroupSizes& groups,
                        const std::string& where) {
  const int64_t moved = operand.shard_stride * (groups.of(operand.shard_group) - 1);
  if (operand.offset >= 0 && operand.bytes >= 0 &&
      operand.offset + moved + operand.bytes <= bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(where, ": operand [", operand.offset, ", ",
                                                 operand.offset + moved + operand.bytes,
                                                 ") is outside its slot of ", bytes, " bytes"));
}

absl::Status CheckTemplate(const Template& tmpl, const GroupSizes& groups) {
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
    if (instruction.mechanism != Mechanism::kCall) continue;
    const Template& tmpl = set.templates[instruction.template_index];
    if (tmpl.formals.size() != instruction.operands.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": template ", tmpl.name, " has ", tmpl.formals.size(),
                       " formals, the call binds ", instruction.operands.size()));
    }
    for (size_t f = 0; f < tmpl.formals.size(); ++f) {
      if (tmpl.formals[f].bytes > instruction.operands[f].bytes) {
        return absl::InvalidArgumentError(
            absl::StrCat(where, ": formal ", tmpl.formals[f].name, " needs ", tmpl.formals[f].bytes,
                         " bytes, bound are ", instruction.operands[f].bytes));
      }
    }
  }
  return absl::OkStatus();
}

// Places locals in the frame by their uses in op order, then orders ops on different streams that
// share bytes.
void LayOutTemplate(Template& tmpl) {
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

  HazardMap map;
  Order order;
  for (size_t o = 0; o < tmpl.ops.size(); ++o) {
    Op& op = tmpl.ops[o];
    // The caller's stream is unknown here and differs from all others by rule; any free number
    // stands for it.
    const Stream stream = op.stream == Stream::kCaller ? Stream::kCompute : op.stream;
    const int node = order.Add(stream, op.dependencies);
    std::vector<int> conflicts;
    for (const Operand& operand : op.operands) {
      const bool local = operand.slot >= formals;
      const int64_t begin =
          operand.offset + (local ? tmpl.local_offsets[operand.slot - formals] : 0);
      map.Use(local ? -1 : operand.slot, begin, begin + operand.bytes, operand.access, node, stream,
              conflicts);
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
    instruction.frame = static_cast<int>(set.slots.size() + program.slots.size());
    program.slots.push_back({.name = absl::StrCat("locals of ", instruction.label),
                             .tier = tier,
                             .klass = SlotClass::kWorkspace,
                             .bytes = tmpl.frame_bytes});
  }
}

// Versions need bytes of their own when something still uses version s, in list order, after s+1
// has begun to be written.
bool NeedsTwoCopies(const Program& program, int slot) {
  bool next_begun = false;
  for (const Instruction& instruction : program.instructions) {
    bool reads_own = false, writes_next = false;
    for (const Operand& operand : instruction.operands) {
      if (operand.slot != slot) continue;
      reads_own |= operand.version == 0;
      writes_next |= operand.version == 1;
    }
    if (reads_own && next_begun && !writes_next) return true;
    next_begun |= writes_next;
  }
  return false;
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
  for (size_t s = 0; s < set.slots.size(); ++s) {
    const Slot& slot = set.slots[s];
    Placement& placement = set.placements[s];
    if (slot.versioned) {
      for (const Program& program : set.programs) {
        if (NeedsTwoCopies(program, static_cast<int>(s))) placement.copies = 2;
      }
    }
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
      const int64_t base = common::RoundUp(persistent[t], kPageBytes);
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

// Adds the dependencies that make the list order hold, on real addresses, over consecutive steps.
class DependencyAdder {
 public:
  DependencyAdder(const ProgramSet& set, Program& program)
      : set_(set), program_(program), advances_(AdvancesVersions(program)) {}

  void Run() {
    int copies = 2;  // more of the same from then on, unless versions alternate between two places
    for (const Placement& placement : set_.placements) {
      if (placement.copies > 1) copies = 3;
    }
    for (copy_ = 0; copy_ < copies; ++copy_) {
      for (size_t i = 0; i < program_.instructions.size(); ++i) Visit(static_cast<int>(i));
    }
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
      instruction.dependencies.push_back({earlier % count(), copy_ - earlier / count()});
      order_.AddEdge(earlier, node);
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
  for (const Template& tmpl : set.templates) RETURN_IF_ERROR(CheckTemplate(tmpl, set.groups));
  for (const Program& program : set.programs) RETURN_IF_ERROR(CheckProgram(set, program));
  for (Template& tmpl : set.templates) LayOutTemplate(tmpl);
  set.arena_bytes = {};
  for (Program& program : set.programs) AddFrames(set, program, set.compute_tier);
  PlacePersistent(set);
  PlaceTransient(set);
  for (Program& program : set.programs) DependencyAdder(set, program).Run();
  return absl::OkStatus();
}

}  // namespace strata::program

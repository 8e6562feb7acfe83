// Step programs: a static list of instructions over slots, one list per pipeline stage and purpose.
#ifndef STRATA_PROGRAM_IR_PROGRAM_H_
#define STRATA_PROGRAM_IR_PROGRAM_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/ir/operand.h"
#include "program/ir/parameter_set.h"
#include "program/ir/scalars.h"
#include "program/ir/template.h"

namespace strata::program {

// "Starts after that instruction has ended": of this step (steps_back 0) or of the one before (1).
struct Dependency {
  int instruction = -1;
  int steps_back = 0;

  bool operator==(const Dependency&) const = default;
};

// The instruction takes place only where the scalar is not zero (or, negated, where it is).
struct Predicate {
  Scalar scalar = Scalar::kApply;
  bool negated = false;
};

struct Instruction {
  Mechanism mechanism = Mechanism::kCall;
  Purpose purpose = Purpose::kForward;
  std::string label;  // for people: "forward block 3 micro 1"
  Stream stream = Stream::kCompute;
  // kCall: one per formal of the template, whole or part of a slot, with the access the template
  // makes of it. Others: see Communication; kTransfer: source, destination; kSignal: what the host
  // reads.
  std::vector<Operand> operands;
  int template_index = -1;  // kCall
  int frame = -1;  // kCall: the slot of the template's locals, added by the layout; -1: it has none
  Communication communication;           // kCollective, kSend, kReceive
  std::vector<Dependency> dependencies;  // on other streams; a stream's own order is implied
  std::optional<Predicate> predicate;
};

// `copies` of a versioned slot: 1 when versions s and s+1 may share bytes, 2 when both must exist
// at once.
struct Placement {
  int64_t offset = 0;  // in the tier's arena
  int copies = 1;
  int64_t stride = 0;  // between copies

  // Where version `version` (0 the step's own, 1 the next) lies when `applied` updates came before
  // the step.
  int64_t at(int64_t applied, int version) const {
    return offset + (applied + version) % copies * stride;
  }
  bool operator==(const Placement&) const = default;
};

// Slots are numbered through: those of the set (persistent, shared by all programs) first, then the
// program's own.
struct Program {
  std::string name;  // train, evaluate, prefill, decode
  std::vector<Slot> slots;
  std::vector<Instruction> instructions;
  std::vector<Placement> placements;  // of `slots`; filled by the layout
  // Passes that the schedule lets the stage keep something of at once; 0: it says nothing.
  int most_in_flight = 0;
};

// Degrees of a job's mesh, as far as operands and costs depend on them.
struct GroupSizes {
  int data = 1, tensor = 1, context = 1, pipeline = 1;
  int shard = 1;  // of the data group's ranks, those that share one copy; divides data

  int of(Axis axis) const;
  int of(Group group) const;
  int world() const { return data * tensor * context * pipeline; }
};

struct ProgramSet {
  GroupSizes groups;
  Tier compute_tier = Tier::kHost;  // of calls' frames
  std::vector<Template> templates;
  std::vector<ParameterSet> sets;
  std::vector<Slot> slots;  // persistent
  int scalars = -1;         // the slot of the scalar block, which predicates read
  std::vector<Program> programs;

  // Filled by the layout. Placements of `slots`; arenas: the maximum over programs, whole pages.
  std::vector<Placement> placements;
  std::array<int64_t, kTierCount> arena_bytes{};

  int64_t arena(Tier tier) const { return arena_bytes[static_cast<int>(tier)]; }
  const Slot& slot(const Program& program, int index) const {
    const int shared = static_cast<int>(slots.size());
    return index < shared ? slots[index] : program.slots[index - shared];
  }
  const Placement& placement(const Program& program, int index) const {
    const int shared = static_cast<int>(slots.size());
    return index < shared ? placements[index] : program.placements[index - shared];
  }
  const Program* find(const std::string& name) const {
    for (const Program& program : programs) {
      if (program.name == name) return &program;
    }
    return nullptr;
  }
};

// Whether a step of this program leaves versioned slots at their next version (training), or where
// they were.
bool AdvancesVersions(const Program& program);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_PROGRAM_H_

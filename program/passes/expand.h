// Expansion: calls replaced by their templates' ops. All readers work on the result.
#ifndef STRATA_PROGRAM_PASSES_EXPAND_H_
#define STRATA_PROGRAM_PASSES_EXPAND_H_

#include <optional>
#include <string>
#include <vector>

#include "program/ir/program.h"

namespace strata::program {

// "After that action has ended", in this step or the one before.
struct ActionDependency {
  int action = -1;
  int steps_back = 0;

  bool operator==(const ActionDependency&) const = default;
};

// One thing a stream does. Operands name slots of the set or program (formals and locals are
// resolved).
struct Action {
  int instruction = -1;
  const Op* op = nullptr;  // the template's op; null: the instruction itself (collective, send,
                           // receive, transfer, signal)
  Mechanism mechanism = Mechanism::kCall;
  Stream stream = Stream::kCompute;
  std::vector<Operand> operands;
  std::vector<int> locals;  // of a call, per operand: the template's local it is part of; -1: none
  Communication communication;                 // collective, send, receive
  std::vector<ActionDependency> dependencies;  // on other streams
  std::optional<Predicate> predicate;

  bool is_communication() const {
    return mechanism == Mechanism::kCollective || mechanism == Mechanism::kSend ||
           mechanism == Mechanism::kReceive;
  }
  int local(size_t operand) const { return operand < locals.size() ? locals[operand] : -1; }
};

// A call is a unit on its caller's stream: ops that it puts on other streams start after all that
// the stream's earlier instructions began (on whatever streams) and after the call's dependencies,
// and the stream goes on after they have ended; also from one step to the next. A predicate adds a
// read of its scalar. Actions keep the list order of instructions, then
// of ops.
struct ExpandedProgram {
  std::vector<Action> actions;

  // "instruction 12 (forward block 3), op 4 (matmul)": for messages.
  std::string Describe(const Program& program, int action) const;
};

ExpandedProgram Expand(const ProgramSet& set, const Program& program);

// One instruction's actions, without dependencies.
std::vector<Action> ExpandInstruction(const ProgramSet& set, const Program& program, int index);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_PASSES_EXPAND_H_

#include "program/passes/check_set.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

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

}  // namespace

absl::Status CheckSet(const ProgramSet& set) {
  for (const Slot& slot : set.slots) RETURN_IF_ERROR(CheckSlot(slot));
  for (const Program& program : set.programs) {
    for (const Slot& slot : program.slots) RETURN_IF_ERROR(CheckSlot(slot));
  }
  for (const Template& tmpl : set.templates) RETURN_IF_ERROR(CheckTemplate(tmpl, set.groups));
  for (const Program& program : set.programs) RETURN_IF_ERROR(CheckProgram(set, program));
  return absl::OkStatus();
}

}  // namespace strata::program

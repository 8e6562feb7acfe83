#include "program/readers/dump.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/digest.h"
#include "program/passes/expand.h"

namespace strata::program {
namespace {

std::string CommunicationText(const Instruction& instruction) {
  const Communication& c = instruction.communication;
  if (instruction.mechanism == Mechanism::kCollective) {
    return absl::StrCat(" ", Name(c.op), " ", Name(c.group), " ", Name(c.dtype), " ", c.bytes,
                        c.op == CollectiveOp::kBroadcast ? absl::StrCat(" root ", c.root) : "");
  }
  if (instruction.mechanism == Mechanism::kSend || instruction.mechanism == Mechanism::kReceive) {
    return absl::StrFormat(" %s%+d channel %d %d", Name(c.group), c.peer_offset, c.channel,
                           c.bytes);
  }
  return "";
}

std::string OperandText(const std::string& name, const Operand& operand) {
  std::string text =
      absl::StrCat(name, "[", operand.offset, ",", operand.offset + operand.bytes, ")");
  if (operand.version != 0) absl::StrAppend(&text, "'");
  if (operand.shard_group != Group::kNone) {
    absl::StrAppend(&text, "+", operand.shard_stride, "*", Name(operand.shard_group));
  }
  if (operand.partial != 0) absl::StrAppend(&text, "~", Name(Group{operand.partial}));
  return absl::StrCat(Name(operand.access)[0] == 'r'   ? ""
                      : Name(operand.access)[0] == 'w' ? "="
                                                       : "+",
                      text);
}

std::string InstructionText(const ProgramSet& set, const Program& program, int index) {
  const Instruction& instruction = program.instructions[index];
  std::string text =
      absl::StrFormat("%d %s %s %s '%s'", index, Name(instruction.stream),
                      Name(instruction.mechanism), Name(instruction.purpose), instruction.label);
  if (instruction.template_index >= 0) {
    absl::StrAppend(&text, " calls ", set.templates[instruction.template_index].name);
  }
  absl::StrAppend(&text, CommunicationText(instruction));
  for (const Operand& operand : instruction.operands) {
    absl::StrAppend(&text, " ", OperandText(set.slot(program, operand.slot).name, operand));
  }
  if (instruction.predicate.has_value()) {
    absl::StrAppend(&text, " if ", instruction.predicate->negated ? "not " : "",
                    Name(instruction.predicate->scalar));
  }
  for (const Dependency& dependency : instruction.dependencies) {
    absl::StrAppend(&text, " after ", dependency.instruction, dependency.steps_back > 0 ? "^" : "");
  }
  return text;
}

std::string SlotText(const Slot& slot, const Placement& placement) {
  return absl::StrFormat("%s %s %s %d at %d%s%s", slot.persistent ? "state" : "slot",
                         Name(slot.tier), Name(slot.klass), slot.bytes, placement.offset,
                         placement.copies > 1 ? " twice" : "", absl::StrCat(" '", slot.name, "'"));
}

}  // namespace

std::string DumpTemplate(const Template& tmpl) {
  std::string text = absl::StrCat("template ", tmpl.name, " frame ", tmpl.frame_bytes,
                                  " locals at ", absl::StrJoin(tmpl.local_offsets, ","), "\n");
  // Enough digits to tell any two numbers apart.
  const auto append_exactly = [](std::string* out, double value) {
    absl::StrAppendFormat(out, "%.17g", value);
  };
  const int formals = static_cast<int>(tmpl.formals.size());
  for (const Op& op : tmpl.ops) {
    absl::StrAppend(&text, "  ", Name(op.stream), " ", Name(op.kind));
    for (const Operand& operand : op.operands) {
      const bool local = operand.slot >= formals;
      absl::StrAppend(&text, " ",
                      OperandText(local ? tmpl.locals[operand.slot - formals].name
                                        : tmpl.formals[operand.slot].name,
                                  operand));
    }
    absl::StrAppend(&text, " {", absl::StrJoin(op.ints, ","), ";",
                    absl::StrJoin(op.floats, ",", append_exactly), "}");
    if (op.kind == OpKind::kCollective) {
      const Communication& c = op.communication;
      absl::StrAppend(&text, " ", Name(c.op), " ", Name(c.group), " ", Name(c.dtype), " ", c.bytes,
                      c.op == CollectiveOp::kBroadcast ? absl::StrCat(" root ", c.root) : "");
    }
    for (const int dependency : op.dependencies) absl::StrAppend(&text, " after ", dependency);
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string Dump(const ProgramSet& set, const Program& program, bool ops) {
  std::string text =
      absl::StrCat("program ", program.name, " arenas ", absl::StrJoin(set.arena_bytes, " "), "\n");
  for (size_t s = 0; s < set.slots.size(); ++s)
    absl::StrAppend(&text, SlotText(set.slots[s], set.placements[s]), "\n");
  for (size_t s = 0; s < program.slots.size(); ++s) {
    absl::StrAppend(&text, SlotText(program.slots[s], program.placements[s]), "\n");
  }
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    absl::StrAppend(&text, InstructionText(set, program, static_cast<int>(i)), "\n");
  }
  if (ops) {
    for (const Template& tmpl : set.templates) absl::StrAppend(&text, DumpTemplate(tmpl));
  }
  return text;
}

std::string ProgramDigest(const ProgramSet& set, const std::string& build) {
  common::Digester digester;
  digester.Add(build.data(), build.size());
  for (const Program& program : set.programs) {
    const std::string text = Dump(set, program, true);
    digester.Add(text.data(), text.size());
  }
  return digester.Finish();
}

std::map<Group, std::string> GroupDigests(const ProgramSet& set) {
  std::map<Group, std::array<std::string, kStreamCount>> sequences;
  for (const Program& program : set.programs) {
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      for (const Action& action : ExpandInstruction(set, program, static_cast<int>(i))) {
        if (action.mechanism != Mechanism::kCollective) continue;
        const Communication& c = action.communication;
        absl::StrAppend(&sequences[c.group][static_cast<int>(action.stream)], program.name, " ",
                        Name(c.op), " ", c.bytes, " ", Name(c.dtype), " ", c.root, " ",
                        program.instructions[i].label, "\n");
      }
    }
  }
  std::map<Group, std::string> digests;
  for (const auto& [group, streams] : sequences)
    digests[group] = common::DigestOf(absl::StrJoin(streams, "|"));
  return digests;
}

}  // namespace strata::program

#include "program/compose/assembler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace strata::program {

Access FormalAccess(const Template& tmpl, int formal) {
  bool finds = false;  // what was there before the call
  std::vector<const Operand*> written;
  for (const Op& op : tmpl.ops) {
    for (const Operand& operand : op.operands) {
      if (operand.slot != formal) continue;
      finds |= operand.reads() &&
               std::none_of(written.begin(), written.end(), [&](const Operand* other) {
                 return operand.offset < other->offset + other->bytes &&
                        other->offset < operand.offset + operand.bytes;
               });
      if (operand.writes()) written.push_back(&operand);
    }
  }
  if (written.empty()) return Access::kRead;
  return finds ? Access::kAccumulate : Access::kWrite;
}

int Assembler::AddPersistent(Slot slot) {
  slot.persistent = true;
  set_.slots.push_back(std::move(slot));
  return static_cast<int>(set_.slots.size()) - 1;
}

int Assembler::AddPersistent(std::string name, SlotClass klass, int64_t bytes, bool versioned) {
  return AddPersistent({.name = std::move(name),
                        .tier = tier_,
                        .klass = klass,
                        .bytes = bytes,
                        .versioned = versioned});
}

void Assembler::BeginProgram(std::string name) {
  set_.programs.push_back({.name = std::move(name)});
}

int Assembler::AddTransient(Slot slot) {
  program().slots.push_back(std::move(slot));
  return static_cast<int>(set_.slots.size() + program().slots.size()) - 1;
}

int Assembler::AddTransient(std::string name, SlotClass klass, int64_t bytes) {
  return AddTransient(Slot{.name = std::move(name), .tier = tier_, .klass = klass, .bytes = bytes});
}

int Assembler::Add(Instruction instruction) {
  program().instructions.push_back(std::move(instruction));
  return static_cast<int>(program().instructions.size()) - 1;
}

int Assembler::Call(int template_index, Purpose purpose, std::string label,
                    const std::function<Operand(const Formal&)>& bind, Stream stream) {
  Instruction call{.mechanism = Mechanism::kCall,
                   .purpose = purpose,
                   .label = std::move(label),
                   .stream = stream};
  call.template_index = template_index;
  const Template& tmpl = set_.templates[template_index];
  for (size_t f = 0; f < tmpl.formals.size(); ++f) {
    Operand operand = bind(tmpl.formals[f]);
    operand.access = FormalAccess(tmpl, static_cast<int>(f));
    call.operands.push_back(operand);
  }
  return Add(std::move(call));
}

int Assembler::CallOp(Op op, Purpose purpose, std::string label, std::vector<Operand> operands,
                      Stream stream) {
  std::vector<int64_t> shape;
  for (const Operand& operand : operands) {
    shape.push_back(operand.bytes);
    shape.push_back(static_cast<int64_t>(operand.access));
  }
  const auto key = std::make_tuple(op.kind, op.ints, op.floats, shape);
  auto [known, fresh] = one_op_templates_.try_emplace(key, static_cast<int>(set_.templates.size()));
  if (fresh) {
    Template tmpl{.name = absl::StrCat(Name(op.kind), " ", operands.front().bytes)};
    for (size_t i = 0; i < operands.size(); ++i) {
      tmpl.formals.push_back({.name = absl::StrCat("operand ", i),
                              .index = static_cast<int>(i),
                              .bytes = operands[i].bytes});
      op.operands.push_back(
          {.slot = static_cast<int>(i), .bytes = operands[i].bytes, .access = operands[i].access});
    }
    tmpl.ops.push_back(std::move(op));
    set_.templates.push_back(std::move(tmpl));
  }
  Instruction call{.mechanism = Mechanism::kCall,
                   .purpose = purpose,
                   .label = std::move(label),
                   .stream = stream};
  call.template_index = known->second;
  call.operands = std::move(operands);
  return Add(std::move(call));
}

int Assembler::Zero(Operand target, Purpose purpose, std::string label, Stream stream) {
  target.access = Access::kWrite;
  return CallOp({.kind = OpKind::kZero, .ints = {target.bytes}}, purpose, std::move(label),
                {target}, stream);
}

int Assembler::Transfer(Stream stream, Purpose purpose, std::string label, Operand from,
                        Operand to) {
  from.access = Access::kRead;
  to.access = Access::kWrite;
  return Add({.mechanism = Mechanism::kTransfer,
              .purpose = purpose,
              .label = std::move(label),
              .stream = stream,
              .operands = {from, to}});
}

int Assembler::Collective(Communication communication, Purpose purpose, Stream stream,
                          const std::string& label, Operand in, Operand out,
                          const ScratchBytes& scratch) {
  in.access = Access::kRead;
  out.access = Access::kWrite;
  Instruction instruction{
      .mechanism = Mechanism::kCollective, .purpose = purpose, .label = label, .stream = stream};
  instruction.communication = communication;
  instruction.operands = {in, out};
  const int64_t bytes = scratch(communication.op, communication.dtype, communication.bytes,
                                set_.groups.of(communication.group));
  if (bytes > 0) {
    const int slot =
        AddTransient(absl::StrCat("scratch of ", label), SlotClass::kCommunication, bytes);
    instruction.operands.push_back({.slot = slot, .bytes = bytes, .access = Access::kWrite});
  }
  return Add(std::move(instruction));
}

}  // namespace strata::program

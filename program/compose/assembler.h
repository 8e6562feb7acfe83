// What composing shares with decode: adding slots and instructions, binding templates by role, and
// small utility templates.
#ifndef STRATA_PROGRAM_COMPOSE_ASSEMBLER_H_
#define STRATA_PROGRAM_COMPOSE_ASSEMBLER_H_

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "program/ir/program.h"

namespace strata::program {

// A whole slot, or part of one, as operand. Access is filled in where the operand is bound.
inline Operand Whole(int slot, int64_t bytes) { return {.slot = slot, .bytes = bytes}; }

// Bytes of scratch that a collective's backend needs: (op, type, bytes as in Communication, group
// size).
using ScratchBytes = std::function<int64_t(CollectiveOp, DType, int64_t bytes, int group_size)>;

// Builds the programs of one set. Persistent slots first, then programs one after the other.
class Assembler {
 public:
  Assembler(ProgramSet& set, Tier tier) : set_(set), tier_(tier) { set.compute_tier = tier; }

  int AddPersistent(std::string name, SlotClass klass, int64_t bytes, bool versioned = false);
  int AddPersistent(Slot slot);
  void BeginProgram(std::string name);
  int AddTransient(std::string name, SlotClass klass, int64_t bytes);
  int AddTransient(Slot slot);

  // Appends an instruction and returns its index; the reference of `last()` serves for what else it
  // needs.
  int Add(Instruction instruction);
  Instruction& last() { return program().instructions.back(); }
  Program& program() { return set_.programs.back(); }
  ProgramSet& set() { return set_; }
  Tier tier() const { return tier_; }

  // A call with one operand per formal from `bind`, which leaves the access to this function.
  int Call(int template_index, Purpose purpose, std::string label,
           const std::function<Operand(const Formal&)>& bind, Stream stream = Stream::kCompute);
  // A call of a template of one op, made on first use; `operands` in the op's order, with their
  // access.
  int CallOp(Op op, Purpose purpose, std::string label, std::vector<Operand> operands,
             Stream stream = Stream::kCompute);
  int Zero(Operand target, Purpose purpose, std::string label, Stream stream = Stream::kCompute);
  int Transfer(Stream stream, Purpose purpose, std::string label, Operand from, Operand to);

  // A collective whose communication.bytes is set; adds a scratch slot where the backend needs one.
  int Collective(Communication communication, Purpose purpose, Stream stream,
                 const std::string& label, Operand in, Operand out, const ScratchBytes& scratch);

 private:
  ProgramSet& set_;
  Tier tier_;
  std::map<std::tuple<OpKind, std::vector<int64_t>, std::vector<double>, std::vector<int64_t>>, int>
      one_op_templates_;
};

// How a template, as a whole, uses one of its formals.
Access FormalAccess(const Template& tmpl, int formal);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_ASSEMBLER_H_

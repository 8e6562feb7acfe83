#include "model/emit/template_builder.h"

#include <array>
#include <utility>

#include "common/check.h"

namespace strata::model {
namespace {

using program::Op;
using program::Operand;

bool Conflict(const Operand& a, const Operand& b) {
  return a.slot == b.slot && (a.writes() || b.writes()) && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

bool Conflict(const Op& a, const Op& b) {
  for (const Operand& x : a.operands) {
    for (const Operand& y : b.operands) {
      if (Conflict(x, y)) return true;
    }
  }
  return false;
}

Operand MakeOperand(const View& view, program::Access access) {
  Operand operand;
  operand.slot = view.slot;
  operand.offset = view.offset;
  operand.bytes = view.bytes;
  operand.access = access;
  operand.partial = view.partial;
  return operand;
}

}  // namespace

View View::Part(int64_t start, int64_t length) const {
  STRATA_CHECK(start >= 0 && length >= 0 && start + length <= bytes);
  View view = *this;
  view.offset += start;
  view.bytes = length;
  return view;
}

Operand Read(const View& view) { return MakeOperand(view, program::Access::kRead); }
Operand Write(const View& view) { return MakeOperand(view, program::Access::kWrite); }
Operand Accumulate(const View& view) { return MakeOperand(view, program::Access::kAccumulate); }

View TemplateBuilder::Formal(program::Role role, int index, int64_t bytes,
                             const std::string& name) {
  for (size_t i = 0; i < result_.formals.size(); ++i) {
    const program::Formal& formal = result_.formals[i];
    if (formal.role != role || formal.index != index) continue;
    STRATA_CHECK(formal.bytes == bytes);
    return {static_cast<int>(i), 0, bytes, 0};
  }
  result_.formals.push_back({name, role, index, bytes});
  return {static_cast<int>(result_.formals.size()) - 1, 0, bytes, 0};
}

View TemplateBuilder::Local(const std::string& name, int64_t bytes, program::SlotClass klass) {
  program::Slot slot;
  slot.name = name;
  slot.klass = klass;
  slot.bytes = bytes;
  result_.locals.push_back(std::move(slot));
  return {kFirstLocal + static_cast<int>(result_.locals.size()) - 1, 0, bytes, 0};
}

void TemplateBuilder::Append(Op op) {
  // Of each other stream only the last op that conflicts: those before it have ended by then.
  std::array<int, program::kStreamCount> last;
  last.fill(-1);
  for (size_t i = 0; i < result_.ops.size(); ++i) {
    const Op& earlier = result_.ops[i];
    if (earlier.stream != op.stream && Conflict(earlier, op)) {
      last[static_cast<int>(earlier.stream)] = static_cast<int>(i);
    }
  }
  for (const int dependency : last) {
    if (dependency >= 0) op.dependencies.push_back(dependency);
  }
  result_.ops.push_back(std::move(op));
}

program::Template TemplateBuilder::Finish() && {
  const int formals = static_cast<int>(result_.formals.size());
  for (Op& op : result_.ops) {
    for (Operand& operand : op.operands) {
      if (operand.slot >= kFirstLocal) operand.slot += formals - kFirstLocal;
    }
  }
  return std::move(result_);
}

}  // namespace strata::model

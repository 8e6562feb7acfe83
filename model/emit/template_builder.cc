#include "model/emit/template_builder.h"

#include <algorithm>
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
  const auto stream = [](const Op& of) { return static_cast<size_t>(of.stream); };
  Ended ended;
  ended.fill(-1);
  const auto join = [&](int earlier) {
    for (size_t s = 0; s < ended.size(); ++s) ended[s] = std::max(ended[s], ended_[earlier][s]);
    int& own = ended[stream(result_.ops[earlier])];
    own = std::max(own, earlier);
  };
  const int count = static_cast<int>(result_.ops.size());
  for (int i = count; i-- > 0;) {
    if (result_.ops[i].stream != op.stream) continue;
    join(i);
    break;
  }
  // Latest first: what an op waits for need not be waited for again.
  for (int i = count; i-- > 0;) {
    const Op& earlier = result_.ops[i];
    if (ended[stream(earlier)] >= i || !Conflict(earlier, op)) continue;
    op.dependencies.push_back(i);
    join(i);
  }
  ended_.push_back(ended);
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

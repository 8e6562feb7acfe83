// Building one template: formals, locals, ops in order.
//
// Ops are listed in an order that is right when executed one after the other; dependencies between
// ops on different streams follow from the bytes they touch and are filled in here; none is stated
// that others imply.
#ifndef STRATA_MODEL_EMIT_TEMPLATE_BUILDER_H_
#define STRATA_MODEL_EMIT_TEMPLATE_BUILDER_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ops/backend.h"
#include "program/ir/template.h"

namespace strata::model {

// A byte range of a formal or local of the template being built, and the type of what is in it.
struct View {
  int slot = -1;
  int64_t offset = 0;
  int64_t bytes = 0;
  program::Partial partial = 0;
  program::DType type = program::DType::kF32;

  // `length` bytes from `start` on.
  View Part(int64_t start, int64_t length) const;
  // `count` elements from `first` on.
  View Elements(int64_t first, int64_t count) const {
    return Part(program::BytesOf(type, first), program::BytesOf(type, count));
  }
  int64_t elements() const { return bytes / program::SizeOf(type); }
  // `count` rows of `width` elements from row `first` on.
  View Rows(int64_t first, int64_t count, int64_t width) const {
    return Elements(first * width, count * width);
  }
  // Of rows, from this column of the first on.
  View FromColumn(int64_t column) const { return Elements(column, elements() - column); }
  View As(program::DType of) const {
    View view = *this;
    view.type = of;
    return view;
  }
  View Marked(program::Partial mark) const {
    View view = *this;
    view.partial = mark;
    return view;
  }
};

program::Operand Read(const View& view);
program::Operand Write(const View& view);
program::Operand Accumulate(const View& view);

class TemplateBuilder {
 public:
  // `backend`: what a rank computes with; workspaces are sized for it.
  TemplateBuilder(std::string name, const ops::Backend& backend) : backend_(backend) {
    result_.name = std::move(name);
  }

  const ops::Backend& backend() const { return backend_; }

  // The formal of this role and index; made at the first call. Later calls name the same bytes.
  View Formal(program::Role role, int index, int64_t bytes, const std::string& name);
  View Local(const std::string& name, int64_t bytes,
             program::SlotClass klass = program::SlotClass::kActivations);
  void Append(program::Op op);
  program::Template Finish() &&;

 private:
  static constexpr int kFirstLocal = 1 << 20;  // locals are numbered behind the formals at the end

  // Per stream (in templates kCaller, the last, is one too), the last op that has ended when an op
  // starts; -1: none.
  using Ended = std::array<int, static_cast<size_t>(program::Stream::kCaller) + 1>;

  const ops::Backend backend_;
  std::vector<Ended> ended_;  // per op
  program::Template result_;
};

}  // namespace strata::model

#endif  // STRATA_MODEL_EMIT_TEMPLATE_BUILDER_H_

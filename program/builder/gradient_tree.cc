#include "program/builder/gradient_tree.h"

#include "absl/strings/str_cat.h"

namespace strata::program {

void GradientTree::BeginLeaf() {
  if (depth_ == static_cast<int>(buffers_.size())) {
    const std::string suffix = depth_ == 0 ? "" : absl::StrCat(" partial ", depth_);
    buffers_.push_back(assembler_->AddTransient(absl::StrCat("gradient of ", set_->name, suffix),
                                                SlotClass::kGradients, set_->bytes()));
  }
  Operand buffer = Whole(buffers_[depth_], set_->bytes());
  buffer.partial = partial_;
  assembler_->Zero(buffer, Purpose::kBackward, absl::StrCat("zero gradient of ", set_->name));
}

void GradientTree::EndLeaf() {
  ++depth_;
  ++ended_;
  levels_.push_back(0);
  while (depth_ > 1 && levels_[depth_ - 1] == levels_[depth_ - 2]) CombineTop();
  while (ended_ == leaves_ && depth_ > 1) CombineTop();  // odd ones pass up
}

void GradientTree::CombineTop() {
  Operand left = Whole(buffers_[depth_ - 2], set_->bytes()),
          right = Whole(buffers_[depth_ - 1], set_->bytes());
  left.access = Access::kAccumulate;
  left.partial = right.partial = partial_;
  const int64_t elements = set_->bytes() / 4;
  assembler_->CallOp(
      {.kind = OpKind::kAdd, .ints = {elements}, .flops = static_cast<double>(elements)},
      Purpose::kCombine, absl::StrCat("combine ", set_->name), {left, right});
  levels_.pop_back();
  ++levels_.back();
  --depth_;
}

}  // namespace strata::program

#include "worker/engine/op_reader.h"

#include "absl/strings/str_cat.h"

namespace strata::worker {

void OpReader::ExpectOperands(const ops::OperandSpecs& specs, bool workspace) {
  specified_ = specs.size();
  const size_t most = specified_ + (workspace ? 1 : 0);
  if (operands_.size() < specified_ || operands_.size() > most) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("has ", operands_.size(), " operands, not ", specified_,
                     workspace ? absl::StrCat(" to ", most) : std::string())));
  }
  for (size_t i = 0; i < specs.size(); ++i) ExpectRoom(operands_[i], specs[i]);
}

void OpReader::ExpectRoom(const BoundOperand& operand, const ops::OperandSpec& spec) {
  // Scalars are found from the start of their slot, so the part must be the right one.
  const int64_t ahead = spec.scalars ? ScalarOffset(spec.first) - operand.offset : 0;
  if (ahead < 0 || operand.bytes < ahead + spec.bytes()) {
    Fail(absl::InvalidArgumentError(absl::StrCat("operand ", spec.name, " has ", operand.bytes,
                                                 " bytes", spec.scalars ? " of the scalars" : "",
                                                 ", its attributes ask for ", spec.bytes(),
                                                 ahead != 0 ? absl::StrCat(" from ", ahead) : "")));
  }
}

void* OpReader::Workspace(int64_t needed_bytes) {
  const bool has = operands_.size() > specified_;
  const int64_t given = has ? operands_.back().bytes : 0;
  if (needed_bytes > given) {
    Fail(absl::FailedPreconditionError(absl::StrCat("the kernel needs ", needed_bytes,
                                                    " bytes of workspace with ", threads(),
                                                    " threads, the program gives it ", given)));
  }
  return has ? operands_.back().data : nullptr;
}

}  // namespace strata::worker

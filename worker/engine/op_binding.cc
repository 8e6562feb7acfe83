#include "worker/engine/op_binding.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

using program::OpKind;

// Kinds that are not here have no kernel yet; collectives are no kernels (communication_binding.h).
struct TableEntry {
  OpKind kind;
  Binder bind;
};
constexpr TableEntry kTable[] = {
    {OpKind::kLoadBatch, BindLoadBatch},
    {OpKind::kLoadScalars, BindLoadScalars},
    {OpKind::kMatMul, BindMatMul},
    {OpKind::kEmbeddingForward, BindEmbeddingForward},
    {OpKind::kEmbeddingBackward, BindEmbeddingBackward},
    {OpKind::kRmsNormForward, BindRmsNormForward},
    {OpKind::kAddRmsNormForward, BindAddRmsNormForward},
    {OpKind::kRmsNormReplay, BindRmsNormReplay},
    {OpKind::kRmsNormBackward, BindRmsNormBackward},
    {OpKind::kRope, BindRope},
    {OpKind::kAttentionForward, BindAttentionForward},
    {OpKind::kAttentionBackward, BindAttentionBackward},
    {OpKind::kAttentionDecode, BindAttentionDecode},
    {OpKind::kSwigluForward, BindSwigluForward},
    {OpKind::kSwigluBackward, BindSwigluBackward},
    {OpKind::kCrossEntropy, BindCrossEntropy},
    {OpKind::kCrossEntropyLoss, BindCrossEntropyLoss},
    {OpKind::kAdd, BindAdd},
    {OpKind::kCopy, BindCopy},
    {OpKind::kZero, BindZero},
    {OpKind::kSumSquares, BindSumSquares},
    {OpKind::kFinishStep, BindFinishStep},
    {OpKind::kAdamW, BindAdamW},
    {OpKind::kAdamWFixUp, BindAdamWFixUp},
};

Binder FindBinder(OpKind kind) {
  const auto* entry = std::find_if(std::begin(kTable), std::end(kTable),
                                   [kind](const TableEntry& entry) { return entry.kind == kind; });
  return entry == std::end(kTable) ? nullptr : entry->bind;
}

}  // namespace

absl::StatusOr<const kernels::MatmulPlan*> MatmulPlans::Get(const kernels::MatmulShape& shape) {
  const Key key = {shape.m,   shape.n,   shape.k,   shape.trans_a,   shape.trans_b,
                   shape.lda, shape.ldb, shape.ldc, shape.accumulate};
  std::unique_ptr<kernels::MatmulPlan>& plan = plans_[key];
  if (plan == nullptr) {
    ASSIGN_OR_RETURN(kernels::MatmulPlan made, kernels::MatmulPlan::Create(shape, threads_));
    plan = std::make_unique<kernels::MatmulPlan>(std::move(made));
  }
  return plan.get();
}

absl::StatusOr<kernels::MatmulShape> MatmulShapeOf(const program::Op& op) {
  const std::vector<int64_t>& ints = op.ints;
  if (ints.size() != 9) {
    return absl::InvalidArgumentError(absl::StrCat("has ", ints.size(), " ints, not 9"));
  }
  return kernels::MatmulShape{.m = ints[0],
                              .n = ints[1],
                              .k = ints[2],
                              .trans_a = ints[3] != 0,
                              .trans_b = ints[4] != 0,
                              .lda = ints[6],
                              .ldb = ints[7],
                              .ldc = ints[8],
                              .accumulate = ints[5] != 0};
}

absl::StatusOr<BoundOp> BindOp(const program::Op& op, absl::Span<const BoundOperand> operands,
                               const OpEnvironment& environment) {
  const Binder bind = FindBinder(op.kind);
  if (bind == nullptr) {
    return absl::UnimplementedError(absl::StrCat("no kernel for ", Name(op.kind)));
  }
  OpReader reader(op, operands, environment);
  BoundOp bound = bind(reader);
  RETURN_IF_ERROR(reader.status());
  return bound;
}

void OpReader::ExpectForm(int count, int most, int ints, int floats) {
  if (operands() < count || operands() > most) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("has ", operands(), " operands, not ", count,
                     most > count ? absl::StrCat(" to ", most) : std::string())));
  }
  if (static_cast<int>(op_.ints.size()) < ints) {
    Fail(absl::InvalidArgumentError(absl::StrCat("has ", op_.ints.size(), " ints, not ", ints)));
  }
  if (static_cast<int>(op_.floats.size()) < floats) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("has ", op_.floats.size(), " floats, not ", floats)));
  }
  if (std::any_of(op_.ints.begin(), op_.ints.end(), [](int64_t value) { return value < 0; })) {
    Fail(absl::InvalidArgumentError("has a negative attribute"));
  }
}

void OpReader::ExpectRoom(int index, int64_t count, int64_t size) {
  if (index >= operands() || operands_[index].bytes >= count * size) return;
  Fail(absl::InvalidArgumentError(absl::StrCat("operand ", index, " has ", operands_[index].bytes,
                                               " bytes, its attributes ask for ", count * size)));
}

void OpReader::ExpectThat(bool condition, const char* what) {
  if (!condition) Fail(absl::InvalidArgumentError(absl::StrCat("attributes: ", what)));
}

void* OpReader::Workspace(int index, int64_t needed_bytes) {
  const int64_t given = index < operands() ? operands_[index].bytes : 0;
  if (needed_bytes > given) {
    Fail(absl::FailedPreconditionError(absl::StrCat("the kernel needs ", needed_bytes,
                                                    " bytes of workspace with ", threads(),
                                                    " threads, the program gives it ", given)));
  }
  return index < operands() ? Data(index) : nullptr;
}

std::byte* OpReader::Data(int index) const {
  return index < operands() ? operands_[index].data : nullptr;
}

double* OpReader::Scalars(int index, program::Scalar first, program::Scalar last) {
  if (index >= operands()) return nullptr;
  const BoundOperand& operand = operands_[index];
  if (operand.offset > ScalarOffset(first) ||
      operand.offset + operand.bytes < ScalarOffset(last) + 8) {
    Fail(absl::InvalidArgumentError(absl::StrCat("operand ", index, " does not cover the scalars ",
                                                 Name(first), " to ", Name(last))));
  }
  return reinterpret_cast<double*>(operand.slot);
}

}  // namespace strata::worker

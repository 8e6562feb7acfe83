#include "ops/table.h"

#include <array>

#include "common/check.h"
#include "common/status_macros.h"
#include "ops/activation.h"
#include "ops/adamw.h"
#include "ops/attention.h"
#include "ops/bias.h"
#include "ops/collective.h"
#include "ops/context.h"
#include "ops/convert.h"
#include "ops/cross_entropy.h"
#include "ops/dequantise.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/headnorm.h"
#include "ops/layernorm.h"
#include "ops/matmul.h"
#include "ops/mixed_adamw.h"
#include "ops/positions.h"
#include "ops/rmsnorm.h"
#include "ops/rope.h"
#include "ops/sgd.h"
#include "ops/shared_heads.h"
#include "ops/step.h"

namespace strata::ops {
namespace {

using program::DType;
using program::Op;
using program::Operand;
using program::OpKind;

template <typename T>
absl::StatusOr<OperandSpecs> OperandsOf(const Op& op) {
  ASSIGN_OR_RETURN(const T attributes, FromOp<T>(op));
  return attributes.Operands();
}

template <typename T>
absl::StatusOr<Cost> CostOf(const Op& op) {
  ASSIGN_OR_RETURN(const T attributes, FromOp<T>(op));
  return Cost{.flops = FlopsOf(attributes), .bytes = BytesMovedOf(attributes)};
}

template <typename T>
absl::StatusOr<int64_t> WorkspaceOf(const Op& op, const Backend& backend) {
  ASSIGN_OR_RETURN(const T attributes, FromOp<T>(op));
  if constexpr (HasWorkspace<T>) return attributes.WorkspaceBytes(backend);
  return 0;
}

// An op's attribute `type`; null: it has none.
template <typename T>
DType* TypeOf(T& op) {
  if constexpr (requires { op.type; }) {
    return &op.type;
  } else if constexpr (requires { op.shape.type; }) {
    return &op.shape.type;
  } else if constexpr (requires { op.of.type; }) {
    return &op.of.type;
  } else {
    return nullptr;
  }
}

template <typename T>
OpEntry Row() {
  OpEntry entry{.kind = T::kKind, .summary = T::kSummary};
  if constexpr (requires { T::kFlops; }) entry.flops = T::kFlops;
  if constexpr (requires { T::kGradient; }) entry.gradient = T::kGradient;
  entry.has_workspace = HasWorkspace<T>;
  T example = T::Example();
  AttributeNames names;
  example.Visit(names);
  entry.attributes = names.names();
  entry.example = ToOp(example);
  entry.example_operands = example.Operands();
  if (DType* type = TypeOf(example)) {
    *type = DType::kBF16;
    entry.example_of_bf16 = example.Operands();
  }
  entry.operands = OperandsOf<T>;
  entry.cost = CostOf<T>;
  entry.workspace_bytes = WorkspaceOf<T>;
  return entry;
}

using AllRows = std::array<OpEntry, program::kOpKindCount>;

AllRows MakeTable() {
  AllRows rows = {Row<LoadBatch>(),
                  Row<LoadScalars>(),
                  Row<MatMul>(),
                  Row<EmbeddingForward>(),
                  Row<EmbeddingBackward>(),
                  Row<RmsNormForward>(),
                  Row<AddRmsNormForward>(),
                  Row<RmsNormReplay>(),
                  Row<RmsNormBackward>(),
                  Row<LayerNormForward>(),
                  Row<AddLayerNormForward>(),
                  Row<LayerNormReplay>(),
                  Row<LayerNormBackward>(),
                  Row<HeadNormForward>(),
                  Row<HeadNormReplay>(),
                  Row<HeadNormBackward>(),
                  Row<AddBias>(),
                  Row<BiasGradient>(),
                  Row<AddPositions>(),
                  Row<PositionsGradient>(),
                  Row<Rope>(),
                  Row<AttentionForward>(),
                  Row<AttentionBackward>(),
                  Row<AttentionDecode>(),
                  Row<AttentionPart>(),
                  Row<AttentionPartBackward>(),
                  Row<AttentionDelta>(),
                  Row<MoveBlocks>(),
                  Row<OrderRows>(),
                  Row<SwigluForward>(),
                  Row<SwigluBackward>(),
                  Row<Activate>(),
                  Row<ActivateBackward>(),
                  Row<CrossEntropy>(),
                  Row<CrossEntropyLoss>(),
                  Row<CrossEntropyStatistics>(),
                  Row<CrossEntropyFinish>(),
                  Row<TakeHeads>(),
                  Row<AddHeads>(),
                  Row<Add>(),
                  Row<Copy>(),
                  Row<Zero>(),
                  Row<Scale>(),
                  Row<Dequantise>(),
                  Row<DequantiseRows>(),
                  Row<Softcap>(),
                  Row<SumSquares>(),
                  Row<FinishStep>(),
                  Row<AdamW>(),
                  Row<AdamWFixUp>(),
                  Row<Convert>(),
                  Row<MixedAdamW>(),
                  Row<Sgd>(),
                  Row<Collective>()};
  for (size_t i = 0; i < rows.size(); ++i) STRATA_CHECK(rows[i].kind == static_cast<OpKind>(i));
  return rows;
}

absl::Status CheckOperand(const Operand& operand, const OperandSpec& spec) {
  if (operand.access != spec.access) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.name, " has access ", Name(operand.access), ", not ", Name(spec.access)));
  }
  if (operand.bytes < spec.bytes() || (!spec.at_least && operand.bytes > spec.bytes())) {
    return absl::InvalidArgumentError(absl::StrCat(spec.name, " has ", operand.bytes,
                                                   " bytes, not ", spec.at_least ? "at least " : "",
                                                   spec.bytes()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<const OpEntry> Table() {
  static const AllRows& table = *new AllRows(MakeTable());
  return table;
}

const OpEntry& EntryOf(OpKind kind) { return Table()[static_cast<size_t>(kind)]; }

absl::Status Check(const Op& op) {
  const OpEntry& entry = EntryOf(op.kind);
  ASSIGN_OR_RETURN(const OperandSpecs specs, entry.operands(op));
  const size_t most = specs.size() + (entry.has_workspace ? 1 : 0);
  if (op.operands.size() < specs.size() || op.operands.size() > most) {
    return absl::InvalidArgumentError(absl::StrCat("has ", op.operands.size(), " operands, not ",
                                                   specs.size(),
                                                   entry.has_workspace ? " and a workspace" : ""));
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    RETURN_IF_ERROR(CheckOperand(op.operands[i], specs[i]));
  }
  if (op.operands.size() > specs.size() && op.operands.back().access != program::Access::kWrite) {
    return absl::InvalidArgumentError("the workspace is not written");
  }
  return absl::OkStatus();
}

}  // namespace strata::ops

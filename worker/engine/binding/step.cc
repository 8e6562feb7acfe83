#include "ops/step.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/finish_step.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

using program::Scalar;

// What the host handed in indexes tables: outside input, which must not reach a kernel unseen.
absl::Status CheckTokens(const int32_t* tokens, const int32_t* targets, int64_t count,
                         int64_t vocabulary) {
  for (int64_t i = 0; i < count; ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat(
          "token ", tokens[i], " in the data is outside the vocabulary of ", vocabulary));
    }
    if (targets[i] >= vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat(
          "target ", targets[i], " in the data is outside the vocabulary of ", vocabulary));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPlaces(const int32_t* positions, int64_t count) {
  const int32_t least = *std::min_element(positions, positions + count);
  if (least >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("position ", least, " inside a document of the data"));
}

void ExpectHost(OpReader& reader) {
  if (reader.environment().host == nullptr) {
    reader.Fail(absl::UnimplementedError("host ops run on the streams compute and host"));
  }
}

}  // namespace

BoundOp BindLoadBatch(OpReader& reader) {
  using Op = ops::LoadBatch;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  ExpectHost(reader);
  const BatchRows rows{.tokens = reader.I32(Op::kTokens),
                       .targets = reader.I32(Op::kTargets),
                       .positions = op->documents ? reader.I32(Op::kPositions) : nullptr,
                       .samples = op->samples,
                       .sequence = op->sequence};
  return [host = reader.environment().host, vocabulary = reader.environment().vocabulary,
          rows]() -> absl::Status {
    RETURN_IF_ERROR(host->LoadBatch(rows));
    const int64_t count = rows.samples * rows.sequence;
    if (rows.positions != nullptr) RETURN_IF_ERROR(CheckPlaces(rows.positions, count));
    if (vocabulary == 0) return absl::OkStatus();
    return CheckTokens(rows.tokens, rows.targets, count, vocabulary);
  };
}

BoundOp BindLoadScalars(OpReader& reader) {
  using Op = ops::LoadScalars;
  if (!reader.Read<Op>()) return {};
  ExpectHost(reader);
  // Updates that run before the finish find a factor that changes nothing.
  const bool early =
      reader.operand(Op::kScalars).bytes > program::ScalarOffset(Scalar::kClipFactor);
  const bool scaled =
      reader.operand(Op::kScalars).bytes > program::ScalarOffset(Scalar::kLossScale);
  return [host = reader.environment().host, scalars = reader.Scalars(Op::kScalars), early, scaled] {
    const auto at = [&](Scalar scalar) -> double& { return scalars[static_cast<int>(scalar)]; };
    if (scaled) at(Scalar::kLossScale) = 1;
    RETURN_IF_ERROR(host->LoadScalars(scalars));
    if (early) at(Scalar::kClipFactor) = scaled ? 1 / at(Scalar::kLossScale) : 1;
    return absl::OkStatus();
  };
}

BoundOp BindFinishStep(OpReader& reader) {
  using Op = ops::FinishStep;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return [op = *op, losses = reader.F64(Op::kLosses),
          norms = op->sets > 0 ? reader.F64(Op::kNorms) : nullptr, read = reader.Scalars(Op::kRead),
          written = reader.Scalars(Op::kResults)] {
    FinishStep(op, losses, norms, read, written);
    return absl::OkStatus();
  };
}

}  // namespace strata::worker

// Binders of what surrounds the model in a step: batches, gradients, norms, updates.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "kernels/adamw.h"
#include "kernels/elementwise.h"
#include "ops/op_struct.h"
#include "ops/step.h"
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

void ExpectHost(OpReader& reader) {
  if (reader.environment().host == nullptr) {
    reader.Fail(absl::UnimplementedError("a host op on a stream of the progress thread"));
  }
}

bool IsFloats(const std::byte* data, int64_t bytes) {
  return bytes % 4 == 0 && reinterpret_cast<uintptr_t>(data) % 4 == 0;
}

// A run of elements that one call of the AdamW kernel updates.
struct Segment {
  int64_t begin = 0, end = 0;  // within the op's range
  bool decay = false;
};

// Cuts [first, first + count) of the flat layout where weight decay begins and ends. Tensors begin
// at multiples of 16 elements, so an end is moved over the padding behind it: padding stays zero,
// and cuts are then the same for every way the set is sharded.
std::vector<Segment> CutAtDecay(const std::vector<int64_t>& ints, int64_t first, int64_t count) {
  std::vector<std::pair<int64_t, int64_t>> decaying;
  for (size_t i = 1; i + 1 < ints.size(); i += 2) {
    const int64_t begin = std::max(ints[i], first) - first;
    const int64_t end = std::min(common::RoundUp(ints[i + 1], 16), first + count) - first;
    if (begin < end) decaying.emplace_back(begin, end);
  }
  std::sort(decaying.begin(), decaying.end());
  std::vector<Segment> segments;
  int64_t next = 0;
  for (const auto& [begin, end] : decaying) {
    if (begin > next) segments.push_back({next, begin, false});
    segments.push_back({begin, end, true});
    next = end;
  }
  if (next < count) segments.push_back({next, count, false});
  return segments;
}

}  // namespace

BoundOp BindLoadBatch(OpReader& reader) {
  reader.ExpectForm(2, 2, 2, 0);
  ExpectHost(reader);
  const int64_t samples = reader.Int(0), sequence = reader.Int(1);
  for (const int operand : {0, 1}) reader.ExpectRoom(operand, samples * sequence, sizeof(int32_t));
  return [host = reader.environment().host, vocabulary = reader.environment().vocabulary, samples,
          sequence, tokens = reader.I32(0), targets = reader.I32(1)]() -> absl::Status {
    RETURN_IF_ERROR(host->LoadBatch(tokens, targets, samples, sequence));
    if (vocabulary == 0) return absl::OkStatus();
    return CheckTokens(tokens, targets, samples * sequence, vocabulary);
  };
}

BoundOp BindLoadScalars(OpReader& reader) {
  reader.ExpectForm(1, 1, 0, 0);
  ExpectHost(reader);
  double* scalars = reader.Scalars(0, Scalar::kStep, Scalar::kValidTokens);
  return [host = reader.environment().host, scalars] { return host->LoadScalars(scalars); };
}

BoundOp BindAdd(OpReader& reader) {
  reader.ExpectForm(2, 2, 1, 0);
  const int64_t count = reader.Int(0);
  for (const int operand : {0, 1}) reader.ExpectFloats(operand, count);
  return [context = reader.context(), count, dst = reader.F32(0), src = reader.F32(1)] {
    kernels::Add(context, count, src, dst);
    return absl::OkStatus();
  };
}

BoundOp BindCopy(OpReader& reader) {
  reader.ExpectForm(2, 2, 1, 0);
  const int64_t bytes = reader.Int(0);
  for (const int operand : {0, 1}) reader.ExpectRoom(operand, bytes, 1);
  std::byte* dst = reader.Data(0);
  const std::byte* src = reader.Data(1);
  if (!IsFloats(dst, bytes) || !IsFloats(src, bytes)) {
    return [dst, src, bytes] {
      std::memcpy(dst, src, bytes);
      return absl::OkStatus();
    };
  }
  return [context = reader.context(), count = bytes / 4, dst = reader.F32(0), src = reader.F32(1)] {
    kernels::Copy(context, count, src, dst);
    return absl::OkStatus();
  };
}

BoundOp BindZero(OpReader& reader) {
  reader.ExpectForm(1, 1, 1, 0);
  const int64_t bytes = reader.Int(0);
  reader.ExpectRoom(0, bytes, 1);
  std::byte* dst = reader.Data(0);
  if (!IsFloats(dst, bytes)) {
    return [dst, bytes] {
      std::memset(dst, 0, bytes);
      return absl::OkStatus();
    };
  }
  return [context = reader.context(), count = bytes / 4, dst = reader.F32(0)] {
    kernels::Zero(context, count, dst);
    return absl::OkStatus();
  };
}

BoundOp BindSumSquares(OpReader& reader) {
  // The op has no workspace, so long ranges are taken in pieces whose workspace fits on the stack.
  // Pieces are cut by position alone, so the sum does not depend on anything else.
  constexpr int64_t kPiece = int64_t{1} << 20;
  constexpr int64_t kWorkspaceBytes = 4096;
  reader.ExpectForm(2, 2, 1, 0);
  const int64_t count = reader.Int(0);
  reader.ExpectFloats(0, count);
  reader.ExpectRoom(1, 1, sizeof(double));
  if (const int64_t needed = kernels::SumSquaresWorkspaceBytes(std::min(count, kPiece));
      needed > kWorkspaceBytes) {
    reader.Fail(absl::FailedPreconditionError(absl::StrCat(
        "the kernel needs ", needed, " bytes of workspace, there are ", kWorkspaceBytes)));
  }
  return [=, context = reader.context(), x = reader.F32(0), out = reader.F64(1)] {
    alignas(kernels::kWorkspaceAlignment) std::byte workspace[kWorkspaceBytes];
    double sum = 0;
    for (int64_t begin = 0; begin < count; begin += kPiece) {
      sum += kernels::SumSquares(context, std::min(kPiece, count - begin), x + begin, workspace);
    }
    *out = sum;
    return absl::OkStatus();
  };
}

BoundOp BindFinishStep(OpReader& reader) {
  const absl::StatusOr<ops::FinishStep> shape = ops::FromOp<ops::FinishStep>(reader.op());
  if (!shape.ok()) {
    reader.Fail(shape.status());
    return {};
  }
  const bool norms = shape->sets > 0;
  reader.ExpectForm(norms ? 4 : 3, norms ? 4 : 3, 5, 1);
  reader.ExpectRoom(ops::FinishStep::kLosses, shape->rows, sizeof(double));
  if (norms) reader.ExpectRoom(ops::FinishStep::kNorms, shape->rows * shape->sets, sizeof(double));
  const double* read =
      reader.Scalars(ops::FinishStep::kRead, Scalar::kInverseTokens, Scalar::kInverseTokens);
  double* written = reader.Scalars(ops::FinishStep::kResults, Scalar::kLoss,
                                   norms ? Scalar::kClipped : Scalar::kLoss);
  return [shape = *shape, losses = reader.F64(ops::FinishStep::kLosses),
          squares = norms ? reader.F64(ops::FinishStep::kNorms) : nullptr, read, written] {
    FinishStep(shape, losses, squares, read, written);
    return absl::OkStatus();
  };
}

namespace {

// What both updates share. `from` is the operand that tells the gradient: itself, or the next first
// moment.
struct BoundUpdate {
  kernels::Context context;
  kernels::AdamWParams fixed;
  const double* scalars = nullptr;
  std::vector<Segment> segments;
  const float *from = nullptr, *param_in = nullptr, *m_in = nullptr, *v_in = nullptr;
  float *param_out = nullptr, *m_out = nullptr, *v_out = nullptr;

  template <typename Kernel>
  absl::Status Run(Kernel kernel) const {
    kernels::AdamWParams params = fixed;
    params.learning_rate = scalars[static_cast<int>(Scalar::kLearningRate)];
    params.step = static_cast<int64_t>(scalars[static_cast<int>(Scalar::kApplied)]) + 1;
    params.grad_factor = scalars[static_cast<int>(Scalar::kClipFactor)];
    for (const auto& [begin, end, decay] : segments) {
      params.weight_decay = decay ? fixed.weight_decay : 0;
      kernel(context, end - begin, params, from + begin, param_in + begin, m_in + begin,
             v_in + begin, param_out + begin, m_out + begin, v_out + begin);
    }
    return absl::OkStatus();
  }
};

BoundUpdate ReadUpdate(OpReader& reader) {
  reader.ExpectForm(8, 8, 1, 4);
  reader.ExpectThat(reader.op().ints.size() % 2 == 1, "ranges that decay come in pairs");
  if (!reader.status().ok()) return {};
  const int64_t count = reader.Int(0);
  int shard_index = 0;  // of the operands that are parts of whole slots
  for (const int operand : {0, 1, 2, 3, 5, 6, 7}) {
    reader.ExpectFloats(operand, count);
    shard_index = std::max(shard_index, reader.operand(operand).shard_index);
  }
  const double* scalars = reader.Scalars(4, Scalar::kApplied, Scalar::kLearningRate);
  reader.Scalars(4, Scalar::kClipFactor, Scalar::kClipFactor);
  return {.context = reader.context(),
          .fixed = {.beta1 = reader.Float(0),
                    .beta2 = reader.Float(1),
                    .epsilon = reader.Float(2),
                    .weight_decay = reader.Float(3)},
          .scalars = scalars,
          .segments = CutAtDecay(reader.op().ints, shard_index * count, count),
          .from = reader.F32(3),
          .param_in = reader.F32(0),
          .m_in = reader.F32(1),
          .v_in = reader.F32(2),
          .param_out = reader.F32(5),
          .m_out = reader.F32(6),
          .v_out = reader.F32(7)};
}

}  // namespace

BoundOp BindAdamW(OpReader& reader) {
  return [update = ReadUpdate(reader)] { return update.Run(kernels::AdamW); };
}

BoundOp BindAdamWFixUp(OpReader& reader) {
  return [update = ReadUpdate(reader)] { return update.Run(kernels::AdamWFixUp); };
}

}  // namespace strata::worker

#include "kernels/elementwise.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ops/elementwise.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

bool IsFloats(const std::byte* data, int64_t bytes) {
  return bytes % 4 == 0 && reinterpret_cast<uintptr_t>(data) % 4 == 0;
}

}  // namespace

BoundOp BindAdd(OpReader& reader) {
  using Op = ops::Add;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), count = op->elements, dst = reader.As<T>(Op::kDst),
            src = reader.As<T>(Op::kSrc)] {
      kernels::Add<T>(context, count, src, dst);
      return absl::OkStatus();
    };
  });
}

BoundOp BindSoftcap(OpReader& reader) {
  using Op = ops::Softcap;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), count = op->elements, cap = static_cast<float>(op->cap),
            x = reader.As<T>(Op::kX)] {
      kernels::Softcap(context, count, cap, x);
      return absl::OkStatus();
    };
  });
}

BoundOp BindCopy(OpReader& reader) {
  using Op = ops::Copy;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  std::byte* dst = reader.Data(Op::kDst);
  const std::byte* src = reader.Data(Op::kSrc);
  if (!IsFloats(dst, op->bytes) || !IsFloats(src, op->bytes)) {
    return [dst, src, bytes = op->bytes] {
      std::memcpy(dst, src, bytes);
      return absl::OkStatus();
    };
  }
  return [context = reader.context(), count = op->bytes / 4, dst = reader.F32(Op::kDst),
          src = reader.F32(Op::kSrc)] {
    kernels::Copy(context, count, src, dst);
    return absl::OkStatus();
  };
}

BoundOp BindZero(OpReader& reader) {
  using Op = ops::Zero;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  std::byte* dst = reader.Data(Op::kDst);
  if (!IsFloats(dst, op->bytes)) {
    return [dst, bytes = op->bytes] {
      std::memset(dst, 0, bytes);
      return absl::OkStatus();
    };
  }
  return [context = reader.context(), count = op->bytes / 4, dst = reader.F32(Op::kDst)] {
    kernels::Zero(context, count, dst);
    return absl::OkStatus();
  };
}

BoundOp BindScale(OpReader& reader) {
  using Op = ops::Scale;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), count = op->elements, dst = reader.As<T>(Op::kDst),
            factor = static_cast<float>(op->factor)] {
      kernels::Scale(context, count, factor, dst);
      return absl::OkStatus();
    };
  });
}

BoundOp BindSumSquares(OpReader& reader) {
  // The op has no workspace, so long ranges are taken in pieces whose workspace fits on the stack.
  // Pieces are cut by position alone, so the sum does not depend on anything else.
  constexpr int64_t kPiece = int64_t{1} << 20;
  constexpr int64_t kWorkspaceBytes = 4096;
  using Op = ops::SumSquares;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const int64_t count = op->count;
  if (const int64_t needed = kernels::SumSquaresWorkspaceBytes(std::min(count, kPiece));
      needed > kWorkspaceBytes) {
    reader.Fail(absl::FailedPreconditionError(absl::StrCat(
        "the kernel needs ", needed, " bytes of workspace, there are ", kWorkspaceBytes)));
  }
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [=, context = reader.context(), x = reader.As<T>(Op::kX), out = reader.F64(Op::kOut)] {
      alignas(kernels::kWorkspaceAlignment) std::byte workspace[kWorkspaceBytes];
      double sum = 0;
      for (int64_t begin = 0; begin < count; begin += kPiece) {
        sum +=
            kernels::SumSquares<T>(context, std::min(kPiece, count - begin), x + begin, workspace);
      }
      *out = sum;
      return absl::OkStatus();
    };
  });
}

}  // namespace strata::worker

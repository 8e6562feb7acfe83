#include "ops/dequantise.h"

#include "kernels/int8.h"
#include "kernels/nf4.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {

static_assert(program::kNf4Unit == kernels::kNf4Unit);
static_assert(program::kNf4UnitBytes == kernels::kNf4UnitBytes);
static_assert(program::kNf4F32UnitBytes == kernels::kNf4F32UnitBytes);

BoundOp BindDequantise(OpReader& reader) {
  using Op = ops::Dequantise;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const std::byte* const units = reader.Data(Op::kUnits);
  std::byte* const out = reader.Data(Op::kOut);
  return WithNumber(op->type, [&](auto number) -> BoundOp {
    using T = decltype(number);
    const auto kernel = op->f32_scales ? kernels::DequantiseNf4F32<T> : kernels::DequantiseNf4<T>;
    return [context = reader.context(), count = op->elements, units, kernel,
            to = reinterpret_cast<T*>(out)] {
      kernel(context, units, count, to);
      return absl::OkStatus();
    };
  });
}

BoundOp BindDequantiseRows(OpReader& reader) {
  using Op = ops::DequantiseRows;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const auto* const codes = reader.As<const int8_t>(Op::kCodes);
  const float* const scales = reader.F32(Op::kScales);
  std::byte* const out = reader.Data(Op::kOut);
  return WithNumber(op->type, [&](auto number) -> BoundOp {
    using T = decltype(number);
    return [context = reader.context(), rows = op->rows, columns = op->columns, codes, scales,
            to = reinterpret_cast<T*>(out)] {
      kernels::DequantiseInt8(context, codes, scales, rows, columns, to);
      return absl::OkStatus();
    };
  });
}

}  // namespace strata::worker

#include "ops/dequantise.h"

#include "kernels/cuda/dequantise.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {

BoundOp LaunchDequantise(OpReader& reader, const Launching& at) {
  using Op = ops::Dequantise;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, f32_scales = op->f32_scales, count = op->elements,
            units = reader.Data(Op::kUnits), out = reader.As<T>(Op::kOut)] {
      return kernels::cuda::DequantiseNf4<T>(stream, units, f32_scales, count, out);
    };
  });
}

BoundOp LaunchDequantiseRows(OpReader& reader, const Launching& at) {
  using Op = ops::DequantiseRows;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, rows = op->rows, columns = op->columns,
            codes = reader.As<const int8_t>(Op::kCodes), scales = reader.F32(Op::kScales),
            out = reader.As<T>(Op::kOut)] {
      return kernels::cuda::DequantiseInt8<T>(stream, codes, scales, rows, columns, out);
    };
  });
}

}  // namespace strata::worker

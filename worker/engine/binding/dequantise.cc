#include "ops/dequantise.h"

#include "kernels/nf4.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {

static_assert(program::kNf4Unit == kernels::kNf4Unit);
static_assert(program::kNf4UnitBytes == kernels::kNf4UnitBytes);

BoundOp BindDequantise(OpReader& reader) {
  using Op = ops::Dequantise;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const std::byte* const units = reader.Data(Op::kUnits);
  std::byte* const out = reader.Data(Op::kOut);
  return WithNumber(op->type, [&](auto number) -> BoundOp {
    using T = decltype(number);
    return
        [context = reader.context(), count = op->elements, units, to = reinterpret_cast<T*>(out)] {
          kernels::DequantiseNf4(context, units, count, to);
          return absl::OkStatus();
        };
  });
}

}  // namespace strata::worker

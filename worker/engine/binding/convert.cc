#include "kernels/convert.h"

#include "absl/strings/str_cat.h"
#include "ops/convert.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

using program::DType;

template <typename From, typename To>
BoundOp BindConversion(OpReader& reader, int64_t count) {
  return [context = reader.context(), count,
          src = reinterpret_cast<const From*>(reader.Data(ops::Convert::kSrc)),
          dst = reinterpret_cast<To*>(reader.Data(ops::Convert::kDst))] {
    kernels::Convert(context, count, src, dst);
    return absl::OkStatus();
  };
}

}  // namespace

BoundOp BindConvert(OpReader& reader) {
  const std::optional<ops::Convert> op = reader.Read<ops::Convert>();
  if (!op) return {};
  const auto is = [&](DType from, DType to) { return op->from == from && op->to == to; };
  using kernels::BFloat16, kernels::Float16;
  if (is(DType::kF32, DType::kBF16)) return BindConversion<float, BFloat16>(reader, op->elements);
  if (is(DType::kF32, DType::kF16)) return BindConversion<float, Float16>(reader, op->elements);
  if (is(DType::kBF16, DType::kF32)) return BindConversion<BFloat16, float>(reader, op->elements);
  if (is(DType::kF16, DType::kF32)) return BindConversion<Float16, float>(reader, op->elements);
  reader.Fail(absl::UnimplementedError(
      absl::StrCat("no conversion from ", Name(op->from), " to ", Name(op->to))));
  return {};
}

}  // namespace strata::worker

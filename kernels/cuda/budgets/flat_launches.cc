#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/cuda/adamw.h"
#include "kernels/cuda/budgets/ledger.h"
#include "kernels/cuda/convert.h"
#include "kernels/cuda/decided_copy.h"
#include "kernels/cuda/dequantise.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/sgd.h"
#include "kernels/cuda/step.h"
#include "kernels/nf4.h"

namespace strata::kernels::cuda {
namespace {

constexpr double kCount = kParameters;

template <typename T>
void AddSquares(const Ledger& l) {
  l.Add("SumSquares", TypeName<T>(), {sizeof(T) * kCount, 2 * kCount, Unit::kF64},
        SumSquares<T>(nullptr, kParameters, l.At<T>(), l.At<double>(), l.At<double>()));
}

template <typename T>
void AddArrays(const Ledger& l) {
  T* const x = l.At<T>();
  constexpr double kBytes = sizeof(T) * kCount;
  const char* const type = TypeName<T>();
  l.Add("Add", type, {3 * kBytes, kCount}, Add<T>(nullptr, kParameters, x, x));
  l.Add("Scale", type, {2 * kBytes, kCount}, Scale<T>(nullptr, kParameters, 2, x));
  l.Add("Softcap", type, {2 * kBytes, 8 * kCount}, Softcap<T>(nullptr, kParameters, 30, x));
}

template <typename T>
void AddQuantised(const Ledger& l) {
  T* const x = l.At<T>();
  // Units begin at multiples of 4.
  const std::byte* const units = reinterpret_cast<const std::byte*>(l.At<float>());
  const char* const type = TypeName<T>();
  constexpr double kOfUnit = double{kNf4UnitBytes} / kNf4Unit;
  constexpr double kOfF32Unit = double{kNf4F32UnitBytes} / kNf4Unit;
  l.Add("DequantiseNf4", type, {(kOfUnit + sizeof(T)) * kCount, kCount},
        DequantiseNf4<T>(nullptr, units, false, kParameters, x));
  l.Add("DequantiseNf4, f32 scales", type, {(kOfF32Unit + sizeof(T)) * kCount, kCount},
        DequantiseNf4<T>(nullptr, units, true, kParameters, x));
  l.Add("DequantiseInt8", type, {(1 + sizeof(T)) * kCount, kCount},
        DequantiseInt8<T>(nullptr, l.At<int8_t>(), l.At<float>(), kParameters / kChannels,
                          kChannels, x));
}

template <typename From, typename To>
void AddConversion(const Ledger& l) {
  l.Add(std::string("Convert to ") + TypeName<To>(), TypeName<From>(),
        {(sizeof(From) + sizeof(To)) * kCount, kCount},
        Convert<From, To>(nullptr, kParameters, l.At<From>(), l.At<To>()));
}

// Gradients of f32, weights of `type` with a master, two moments.
NumbersOfUpdate Numbers(const Ledger& l, NumberType type, MasterFormat master, MomentFormat first,
                        MomentFormat second) {
  std::byte* const at = reinterpret_cast<std::byte*>(l.At<float>());
  const Weights weights{.type = type, .master_format = master, .weights = at, .master = at};
  const Moments of_first{.format = first, .data = at, .count = kParameters};
  const Moments of_second{.format = second, .data = at, .count = kParameters};
  return {.gradient_type = NumberType::kF32,
          .gradient = at,
          .weights = weights,
          .next_weights = weights,
          .moments = {of_first, of_second},
          .next_moments = {of_first, of_second}};
}

void AddUpdates(const Ledger& l) {
  const UpdateScalars scalars{.applied = l.At<double>(),
                              .learning_rate = l.At<double>(),
                              .clip_factor = l.At<double>(),
                              .predicate = {}};
  const UpdateSegment segments[] = {{.begin = 0, .end = kParameters, .decay = true}};
  const NumbersOfUpdate plain =
      Numbers(l, NumberType::kF32, MasterFormat::kNone, MomentFormat::kF32, MomentFormat::kF32);
  const NumbersOfUpdate mixed =
      Numbers(l, NumberType::kBF16, MasterFormat::kF32, MomentFormat::kF32, MomentFormat::kF32);
  const NumbersOfUpdate half =
      Numbers(l, NumberType::kF16, MasterFormat::kF32, MomentFormat::kF32, MomentFormat::kF32);
  // Per element: the gradient; weights and moments of f32, or 2 + 2 and 1 byte, read and written.
  constexpr double kPlain = 4 + 2 * (4 + 4 + 4), kSmall = 4 + 2 * (2 + 2 + 1 + 1);
  const struct {
    const char* type;
    const NumbersOfUpdate& numbers;
    double bytes;
  } all[] = {{"f32", plain, kPlain}, {"bf16", mixed, kPlain + 2}, {"f16", half, kPlain + 2}};
  for (const auto& [type, numbers, bytes] : all) {
    l.Add("AdamW", type, {bytes * kCount, 15 * kCount},
          AdamW(nullptr, {}, scalars, segments, numbers));
    l.Add("AdamWFixUp", type, {bytes * kCount, 15 * kCount},
          AdamWFixUp(nullptr, {}, scalars, segments, numbers));
    l.Add("Sgd", type, {(bytes - 8) * kCount, 5 * kCount},
          Sgd(nullptr, {}, scalars, segments, numbers));
  }
  // Per element of 8-bit moments: 1 + 1 bytes, read and written.
  const auto of_8_bits = [&](NumberType type, MasterFormat master) {
    return Numbers(l, type, master, MomentFormat::kSigned8, MomentFormat::kUnsigned8);
  };
  NumbersOfUpdate least = of_8_bits(NumberType::kBF16, MasterFormat::kRemainder);
  least.gradient_type = NumberType::kBF16;
  const struct {
    const char *what, *type;
    NumbersOfUpdate numbers;
    double bytes;
  } all_of_8_bits[] = {
      {"", "bf16", of_8_bits(NumberType::kBF16, MasterFormat::kF32), 4 + 2 * (2 + 4 + 2) - 2},
      {"", "f16", of_8_bits(NumberType::kF16, MasterFormat::kF32), 4 + 2 * (2 + 4 + 2) - 2},
      {", split masters", "bf16", of_8_bits(NumberType::kBF16, MasterFormat::kRemainder), kSmall},
      {", split masters, gradients of bf16", "bf16", least, kSmall - 2}};
  for (const auto& [what, type, numbers, bytes] : all_of_8_bits) {
    l.Add(absl::StrCat("AdamW", what, ", moments of 8 bits"), type, {bytes * kCount, 40 * kCount},
          AdamW(nullptr, {}, scalars, segments, numbers));
    l.Add(absl::StrCat("Sgd", what, ", moments of 8 bits"), type,
          {(bytes - 2) * kCount, 20 * kCount}, Sgd(nullptr, {}, scalars, segments, numbers));
  }
}

void AddOthers(const Ledger& l) {
  double* const d = l.At<double>();
  float* const f = l.At<float>();
  l.Add("Fill", "f32", {4 * kCount, 0}, Fill(nullptr, kParameters, 1, f));
  l.Add("AddInOrder of the losses", "f32", {4.0 * kTokens, kTokens, Unit::kF64},
        AddInOrder(nullptr, kTokens, f, d));
  const FinishStepScalars scalars{.inverse_tokens = d,
                                  .loss_scale = d,
                                  .loss = d,
                                  .gradient_norm = d,
                                  .clip_factor = d,
                                  .apply = d,
                                  .clipped = d};
  constexpr double kLeaves = 1024;
  l.Add("FinishStep of 1,024 leaves", "f64", {8 * kLeaves, 2 * kLeaves, Unit::kF64},
        FinishStep(nullptr, {.rows = 32, .sets = 32, .clip = 1}, d, d, scalars));
  l.Add("DecidedCopy", "bytes", {8 * kCount, 0},
        DecidedCopy(nullptr, d, false, 4 * kParameters, f, f));
  l.Add("DecidedCopy", "bytes", {}, DecidedCopy(nullptr, d, false, 4 * kParameters + 1, f, f),
        false);
}

}  // namespace

void AddFlatOperations(const Ledger& ledger) {
  AddSquares<float>(ledger);
  AddSquares<BFloat16>(ledger);
  AddSquares<Float16>(ledger);
  AddArrays<float>(ledger);
  AddArrays<BFloat16>(ledger);
  AddArrays<Float16>(ledger);
  AddQuantised<float>(ledger);
  AddQuantised<BFloat16>(ledger);
  AddQuantised<Float16>(ledger);
  AddConversion<float, BFloat16>(ledger);
  AddConversion<float, Float16>(ledger);
  AddConversion<BFloat16, float>(ledger);
  AddConversion<Float16, float>(ledger);
  AddUpdates(ledger);
  AddOthers(ledger);
}

}  // namespace strata::kernels::cuda

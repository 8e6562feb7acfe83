#include "absl/strings/str_cat.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/budgets/ledger.h"

namespace strata::kernels::cuda {
namespace {

constexpr double kF32 = sizeof(float);

// Half of the square of scores, of which a product takes 2 · D each: two products forward, five
// backward.
double FlopsOfProducts(int64_t head_size, int products) {
  return double{kBatch} * kHeads * kSequence * kSequence * static_cast<double>(head_size) *
         products;
}

template <typename T>
void AddHeadsOf(const Ledger& l, int64_t head_size, int64_t kv_heads) {
  T* const x = l.At<T>();
  float* const f = l.At<float>();
  constexpr double kT = sizeof(T);
  constexpr Unit kUnit = sizeof(T) == 2 ? Unit::kTensor : Unit::kF32;
  const double size = static_cast<double>(head_size);
  const double qkv = kT * kTokens * (kHeads + 2 * kv_heads) * size,
               out = kT * kTokens * kHeads * size;
  const double rows = kF32 * kTokens * kHeads;
  const AttentionShape shape{.batch = kBatch,
                             .sequence = kSequence,
                             .heads = kHeads,
                             .kv_heads = kv_heads,
                             .head_size = head_size};
  const auto name = [&](const char* what) {
    return absl::StrCat(what, ", heads of ", head_size,
                        kv_heads == kKvHeads ? "" : absl::StrCat(", ", kv_heads, " of keys"));
  };
  const char* const type = TypeName<T>();
  l.Add(name("AttentionForward"), type, {qkv + out + rows, FlopsOfProducts(head_size, 2), kUnit},
        AttentionForward<T>(nullptr, shape, x, nullptr, x, f));
  l.Add(name("AttentionBackward"), type,
        {2 * qkv + 2 * out + rows, FlopsOfProducts(head_size, 5), kUnit},
        AttentionBackward<T>(nullptr, shape, x, x, x, f, nullptr, x, f));
}

template <typename T>
void AddDecoding(const Ledger& l, int64_t head_size) {
  T* const x = l.At<T>();
  constexpr double kT = sizeof(T);
  const double size = static_cast<double>(head_size), row = kKvHeads * size;
  const DecodeShape shape{.batch = 64,
                          .rows = 1,
                          .context = kSequence,
                          .position = kSequence - 1,
                          .heads = kHeads,
                          .kv_heads = kKvHeads,
                          .head_size = head_size};
  const auto name = [&](const char* what) { return absl::StrCat(what, ", heads of ", head_size); };
  const DecodeScalars scalars{.position = l.At<double>(), .rows = l.At<double>()};
  l.Add(name("AppendToCache of 64"), TypeName<T>(), {4 * kT * 64 * row, 0},
        AppendToCache<T>(nullptr, shape, scalars, x, x, x, x));
  l.Add(name("DecodeAttention of 64 x 4096"), TypeName<T>(),
        {2 * kT * 64 * kSequence * row, 4.0 * 64 * kSequence * kHeads * size,
         sizeof(T) == 2 ? Unit::kTensor : Unit::kF32},
        DecodeAttention<T>(nullptr, shape, scalars, x, x, x, x));
}

template <typename T>
void AddOf(const Ledger& ledger) {
  for (const int64_t head_size : {64, 96, 128, 192, 256}) {
    AddHeadsOf<T>(ledger, head_size, kKvHeads);
    AddDecoding<T>(ledger, head_size);
  }
  AddHeadsOf<T>(ledger, 128, 2);  // whose groups are in parts
}

}  // namespace

void AddAttention(const Ledger& ledger) {
  AddOf<float>(ledger);
  AddOf<BFloat16>(ledger);
  AddOf<Float16>(ledger);
}

}  // namespace strata::kernels::cuda

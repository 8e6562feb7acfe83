// Launches of operations at named shapes, with the least that each must move and compute.
#ifndef STRATA_KERNELS_CUDA_BUDGETS_LEDGER_H_
#define STRATA_KERNELS_CUDA_BUDGETS_LEDGER_H_

#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "kernels/number_types.h"

namespace strata::kernels::cuda {

// Llama 3.1 8B, two sequences of 4,096 tokens.
inline constexpr int64_t kBatch = 2, kSequence = 4096, kTokens = kBatch * kSequence;
inline constexpr int64_t kChannels = 4096, kHeads = 32, kKvHeads = 8, kHead = 128;
inline constexpr int64_t kFfn = 14336, kVocabulary = 128256;
inline constexpr int64_t kQkv = (kHeads + 2 * kKvHeads) * kHead;
// Of a layer.
inline constexpr int64_t kParameters =
    kChannels * kQkv + kChannels * kHeads * kHead + 3 * kChannels * kFfn;

// What computes.
enum class Unit { kF32, kF64, kTensor };

// Of each input read once and each output written once.
struct Work {
  double bytes = 0, flops = 0;
  Unit unit = Unit::kF32;
};

template <typename T>
constexpr const char* TypeName() {
  if constexpr (std::is_same_v<T, float>) return "f32";
  if constexpr (std::is_same_v<T, BFloat16>) return "bf16";
  if constexpr (std::is_same_v<T, Float16>) return "f16";
  return "";
}

// Prints a line for each operation, `op name type bytes flops unit`, and then one for each of its
// launches, `launch kernel blocks threads shared bytes`; between tabs.
class Ledger {
 public:
  // Pointers to numbers: aligned as allocations are, or, the second time, as single numbers are.
  // Nothing lies there.
  template <typename T>
  T* At() const {
    return reinterpret_cast<T*>((uintptr_t{1} << 40) + (aligned_ ? 0 : sizeof(T)));
  }
  void Misalign() { aligned_ = false; }

  // What was launched since the last call was `name`. Operations that are not told of, because of
  // their alignment or an unusual shape, launch kernels all the same.
  void Add(const std::string& name, const char* type, const Work& work, const absl::Status& status,
           bool told = true) const;

 private:
  bool aligned_ = true;
};

// Of every kernel in kernels/cuda.
void AddRowOperations(const Ledger& ledger);  // norms, biases, activations, positions, losses
void AddAttention(const Ledger& ledger);
void AddFlatOperations(const Ledger& ledger);  // arrays, conversions, updates, the step's end

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_BUDGETS_LEDGER_H_

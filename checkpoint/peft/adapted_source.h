// A base model's tensors and an adapter's as one source: side by side, or merged.
#ifndef STRATA_CHECKPOINT_PEFT_ADAPTED_SOURCE_H_
#define STRATA_CHECKPOINT_PEFT_ADAPTED_SOURCE_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "checkpoint/peft/adapter_weights.h"
#include "checkpoint/tensor_source.h"

namespace strata::checkpoint {

// What is an adapter's comes from one, the rest from the other.
class AdaptedSource final : public TensorSource {
 public:
  // Borrows both.
  AdaptedSource(TensorSource* base, TensorSource* adapter) : base_(*base), adapter_(*adapter) {}
  absl::Status ReadRegion(const std::string& name, const Region& region, float* out) override;

 private:
  TensorSource& base_;
  TensorSource& adapter_;
};

// The base's tensors, W + scale · B · A where there is an adapter: summed in f32, over the rank in
// ascending order.
class MergedSource final : public TensorSource {
 public:
  // Borrows both; `tensors` are the adapter's.
  MergedSource(TensorSource* base, TensorSource* adapter, absl::Span<const AdapterTensor> tensors,
               double scale);
  absl::Status ReadRegion(const std::string& name, const Region& region, float* out) override;

 private:
  // Adds to the elements of a box of the weight.
  absl::Status AddProduct(const std::string& a, const std::string& b, const Box& box, float* out);

  TensorSource& base_;
  TensorSource& adapter_;
  std::set<std::string> names_;  // of the adapter's tensors
  const int64_t rank_;
  const float scale_;
  std::vector<float> a_, b_;
};

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_PEFT_ADAPTED_SOURCE_H_

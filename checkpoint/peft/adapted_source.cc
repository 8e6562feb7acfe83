#include "checkpoint/peft/adapted_source.h"

#include <algorithm>

#include "checkpoint/box.h"
#include "common/status_macros.h"
#include "model/adapter_names.h"

namespace strata::checkpoint {
namespace {

int64_t RankOf(absl::Span<const AdapterTensor> tensors) {
  for (const AdapterTensor& tensor : tensors) {
    if (tensor.name.find(".lora_A.") != std::string::npos) return tensor.shape[0];
  }
  return 0;
}

Region WholeOf(const Box& box) { return {box, 0, box.elements()}; }

}  // namespace

absl::Status AdaptedSource::ReadRegion(const std::string& name, const Region& region, float* out) {
  return (model::IsAdapter(name) ? adapter_ : base_).ReadRegion(name, region, out);
}

MergedSource::MergedSource(TensorSource* base, TensorSource* adapter,
                           absl::Span<const AdapterTensor> tensors, double scale)
    : base_(*base), adapter_(*adapter), rank_(RankOf(tensors)), scale_(static_cast<float>(scale)) {
  for (const AdapterTensor& tensor : tensors) names_.insert(tensor.name);
}

absl::Status MergedSource::ReadRegion(const std::string& name, const Region& region, float* out) {
  RETURN_IF_ERROR(base_.ReadRegion(name, region, out));
  const model::AdapterNames beside = model::AdapterBeside(name);
  if (!names_.contains(beside.a) || !names_.contains(beside.b)) return absl::OkStatus();
  for (const Box& box : BoxesOf(region)) {
    RETURN_IF_ERROR(AddProduct(beside.a, beside.b, box, out));
    out += box.elements();
  }
  return absl::OkStatus();
}

absl::Status MergedSource::AddProduct(const std::string& a, const std::string& b, const Box& box,
                                      float* out) {
  const int64_t rows = box.extent[0], columns = box.extent[1];
  a_.resize(static_cast<size_t>(rank_ * columns));
  b_.resize(static_cast<size_t>(rows * rank_));
  RETURN_IF_ERROR(
      adapter_.ReadRegion(a, WholeOf({{0, box.offset[1]}, {rank_, columns}}), a_.data()));
  RETURN_IF_ERROR(adapter_.ReadRegion(b, WholeOf({{box.offset[0], 0}, {rows, rank_}}), b_.data()));
  std::vector<float> sum(static_cast<size_t>(columns));
  for (int64_t row = 0; row < rows; ++row, out += columns) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (int64_t k = 0; k < rank_; ++k) {
      const float factor = b_[static_cast<size_t>(row * rank_ + k)];
      const float* const from = &a_[static_cast<size_t>(k * columns)];
      for (int64_t i = 0; i < columns; ++i) sum[static_cast<size_t>(i)] += factor * from[i];
    }
    for (int64_t i = 0; i < columns; ++i) out[i] += scale_ * sum[static_cast<size_t>(i)];
  }
  return absl::OkStatus();
}

}  // namespace strata::checkpoint

#include "planner/fit/arithmetic.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "model/lora_proto.h"

namespace strata::planner {
namespace {

using v1::OptimizerSpec;
using v1::ParallelSpec;
using v1::TrainSpec;

std::string Number(double value) {
  return value < 1000 ? absl::StrCat(value) : common::FormatDecimal(value, "");
}

class Ledger {
 public:
  Ledger(const FitRequest& request, const MemoryOfJob& memory)
      : request_(request), stage_(memory.of_rank(memory.worst_rank())), sizes_(memory.mesh.sizes) {}

  // `count` things of `each` bytes, cut among a model's ranks, and among a shard group's.
  void Add(ByteClass c, double count, const char* what, double each, ParallelSpec::Shard from) {
    const int model = sizes_.tensor * sizes_.pipeline;
    const int shards = request_.job.parallel().shard() >= from ? sizes_.shard : 1;
    Product product{.klass = c};
    product.factors = absl::StrCat(Number(count), what, " × ", each, " B");
    if (model > 1) absl::StrAppend(&product.factors, " / ", model, " (tensor × pipeline)");
    if (shards > 1) absl::StrAppend(&product.factors, " / ", shards, " (shards)");
    Keep(std::move(product), count * each / model / shards);
  }
  void Add(ByteClass c, std::string factors, double bytes) {
    Keep({.klass = c, .factors = std::move(factors)}, bytes);
  }
  std::vector<Product> Take() { return std::move(products_); }
  const program::GroupSizes& sizes() const { return sizes_; }

 private:
  void Keep(Product product, double bytes) {
    product.bytes = bytes;
    for (const TierBytes& tier : stage_.tiers) {
      product.held += static_cast<double>(tier.of(product.klass));
    }
    products_.push_back(std::move(product));
  }

  const FitRequest& request_;
  const StageMemory& stage_;
  const program::GroupSizes sizes_;
  std::vector<Product> products_;
};

double StateBytes(const OptimizerSpec& optimizer) {
  double each = 4;
  if (optimizer.state() == OptimizerSpec::STATE_BF16) each = 2;
  if (optimizer.state() == OptimizerSpec::STATE_8BIT) each = 1 + 4.0 / 256;
  return optimizer.name() == OptimizerSpec::NAME_SGD ? each : 2 * each;
}

void AddTraining(const FitRequest& request, double weight, Ledger& ledger) {
  const TrainSpec& train = request.job.train();
  const OptimizerSpec& optimizer = train.optimizer();
  double trained = request.model.parameters();
  const char* what = " parameters";
  if (model::TrainsAdapters(train)) {
    trained = request.model.adapter_widths() * static_cast<double>(train.lora().rank());
    what = " adapter parameters (rank × Σ (in + out))";
    ledger.Add(ByteClass::kParameters, trained, what, weight, ParallelSpec::SHARD_ZERO3);
  }
  const double gradient = optimizer.gradient() == OptimizerSpec::GRADIENT_BF16 ? 2 : 4;
  ledger.Add(ByteClass::kGradients, trained, what, gradient, ParallelSpec::SHARD_ZERO2);
  if (weight < 4) {
    const bool split = optimizer.master() == OptimizerSpec::MASTER_SPLIT;
    ledger.Add(ByteClass::kMaster, trained, what, split ? 2 : 4, ParallelSpec::SHARD_ZERO1);
  }
  ledger.Add(ByteClass::kOptimizer, trained, what, StateBytes(optimizer),
             ParallelSpec::SHARD_ZERO1);
  if (train.sequence() == 0) return;
  const double tokens = static_cast<double>(train.micro_batch() * train.sequence()) /
                        ledger.sizes().context / ledger.sizes().tensor;
  const double boundary = static_cast<double>(request.model.spec.hidden) * weight;
  const auto layers = static_cast<double>(request.model.spec.layers) / ledger.sizes().pipeline;
  ledger.Add(ByteClass::kActivations,
             absl::StrCat(Number(tokens), " tokens × ", layers, " layers × ", Number(boundary),
                          " B between layers: the least, with recompute: full"),
             tokens * layers * boundary);
}

}  // namespace

std::vector<Product> ArithmeticOf(const FitRequest& request, const MemoryOfJob& memory) {
  Ledger ledger(request, memory);
  const TrainSpec& train = request.job.train();
  double weight = train.precision() > TrainSpec::PRECISION_F32 ? 2 : 4;
  double matrix = weight;
  if (request.inference) {
    weight = request.weights == program::DType::kF32 ? 4 : 2;
    matrix = static_cast<double>(program::BytesOf(request.weights, program::kNf4Unit)) /
             static_cast<double>(program::kNf4Unit);
  } else if (train.method() == TrainSpec::METHOD_QLORA) {
    const program::DType type = model::LoraOf(train).quantised.value_or(program::DType::kNf4);
    matrix = static_cast<double>(program::BytesOf(type, program::kNf4Unit)) /
             static_cast<double>(program::kNf4Unit);
  }
  const double all = request.model.parameters();
  if (matrix < weight) {
    const double matrices = request.model.block_matrices();
    ledger.Add(ByteClass::kParameters, matrices, " quantised weights", matrix,
               ParallelSpec::SHARD_ZERO3);
    ledger.Add(ByteClass::kParameters, all - matrices, " other weights", weight,
               ParallelSpec::SHARD_ZERO3);
  } else {
    ledger.Add(ByteClass::kParameters, all, " parameters", weight, ParallelSpec::SHARD_ZERO3);
  }
  if (!request.inference) AddTraining(request, weight, ledger);
  return ledger.Take();
}

}  // namespace strata::planner

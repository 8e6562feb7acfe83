#include "client/feasibility.h"

#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "model/lora_proto.h"

namespace strata::client {
namespace {

using strata::v1::JobSpec;
using strata::v1::OptimizerSpec;
using strata::v1::ParallelSpec;
using strata::v1::TrainSpec;

// Of a parameter.
struct BytesEach {
  double weight = 4, gradient = 4;
  double state = 0;  // master and moments
};

BytesEach BytesEachOf(const TrainSpec& train) {
  const OptimizerSpec& optimizer = train.optimizer();
  BytesEach bytes;
  if (model::TrainsAdapters(train)) {
    double weight = train.precision() > TrainSpec::PRECISION_F32 ? 2 : 4;
    if (train.method() == TrainSpec::METHOD_QLORA) {
      weight = train.quantize().type() == strata::v1::QuantizeSpec::TYPE_INT8 ? 1 : 0.5;
    }
    return {.weight = weight, .gradient = 0};
  }
  if (optimizer.gradient() == OptimizerSpec::GRADIENT_BF16) bytes.gradient = 2;
  if (train.precision() > TrainSpec::PRECISION_F32) {
    bytes.weight = 2;
    bytes.state = optimizer.master() == OptimizerSpec::MASTER_SPLIT ? 2 : 4;
  }
  double moment = 4;
  if (optimizer.state() == OptimizerSpec::STATE_BF16) moment = 2;
  if (optimizer.state() == OptimizerSpec::STATE_8BIT) moment = 1;
  bytes.state += optimizer.name() == OptimizerSpec::NAME_SGD ? moment : 2 * moment;
  return bytes;
}

// How often all ranks together hold a thing of which they share shards from `level` on.
double Copies(const JobSpec& job, ParallelSpec::Shard level) {
  return job.parallel().shard() >= level ? 1 : static_cast<double>(job.parallel().data());
}

}  // namespace

double LeastBytes(const JobSpec& job, double parameters) {
  const BytesEach bytes = BytesEachOf(job.train());
  return parameters * (bytes.weight * Copies(job, ParallelSpec::SHARD_ZERO3) +
                       bytes.gradient * Copies(job, ParallelSpec::SHARD_ZERO2) +
                       bytes.state * Copies(job, ParallelSpec::SHARD_ZERO1));
}

absl::Status CheckFits(const JobSpec& job, double parameters, int64_t memory_bytes) {
  const double needed = LeastBytes(job, parameters);
  if (memory_bytes == 0 || needed <= static_cast<double>(memory_bytes)) return absl::OkStatus();
  const BytesEach bytes = BytesEachOf(job.train());
  const auto part = [&](double each, const char* what, ParallelSpec::Shard level) {
    return absl::StrCat(each, " B ", what, " × ", Copies(job, level));
  };
  return absl::ResourceExhaustedError(
      absl::StrCat("does not fit: needs at least ", common::FormatBytes(needed),
                   ", this machine has ", common::FormatBytes(static_cast<double>(memory_bytes)),
                   " (", common::FormatDecimal(parameters, ""), " parameters × (",
                   part(bytes.weight, "weight", ParallelSpec::SHARD_ZERO3), " + ",
                   part(bytes.gradient, "gradient", ParallelSpec::SHARD_ZERO2), " + ",
                   part(bytes.state, "of the optimizer's state", ParallelSpec::SHARD_ZERO1), "))"));
}

}  // namespace strata::client

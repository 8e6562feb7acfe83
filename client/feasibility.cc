#include "client/feasibility.h"

#include "absl/strings/str_cat.h"
#include "common/units.h"

namespace strata::client {
namespace {

using strata::v1::JobSpec;
using strata::v1::ModelSpec;
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

bool ShardsState(const JobSpec& job) { return job.parallel().shard() != ParallelSpec::SHARD_NONE; }

}  // namespace

double ParameterCount(const ModelSpec& model) {
  const auto hidden = static_cast<double>(model.hidden());
  const auto queries = static_cast<double>(model.heads()) * static_cast<double>(model.head_size());
  const auto keys = static_cast<double>(model.kv_heads()) * static_cast<double>(model.head_size());
  const double attention = hidden * (2 * queries + 2 * keys);
  const double feed_forward = 3 * hidden * static_cast<double>(model.ffn());
  const double layer = attention + feed_forward + 2 * hidden;
  const double embedding = hidden * static_cast<double>(model.vocab());
  return static_cast<double>(model.layers()) * layer + hidden +
         embedding * (model.tied_embeddings() ? 1 : 2);
}

double LeastBytes(const JobSpec& job) {
  const auto data = static_cast<double>(job.parallel().data());
  const BytesEach bytes = BytesEachOf(job.train());
  const double state = bytes.state * (ShardsState(job) ? 1 : data);
  return ParameterCount(job.model()) * (data * (bytes.weight + bytes.gradient) + state);
}

absl::Status CheckFits(const JobSpec& job, int64_t memory_bytes) {
  const double needed = LeastBytes(job);
  if (memory_bytes == 0 || needed <= static_cast<double>(memory_bytes)) return absl::OkStatus();
  const double parameters = ParameterCount(job.model());
  const BytesEach bytes = BytesEachOf(job.train());
  return absl::ResourceExhaustedError(
      absl::StrCat("does not fit: needs at least ", common::FormatBytes(needed),
                   ", this machine has ", common::FormatBytes(static_cast<double>(memory_bytes)),
                   " (", common::FormatDecimal(parameters, ""), " parameters × (", bytes.weight,
                   " B weight + ", bytes.gradient, " B gradient) × ", job.parallel().data(),
                   job.parallel().data() == 1 ? " rank" : " ranks", " + ", bytes.state,
                   " B of the optimizer's state", ShardsState(job) ? " once" : " each", ")"));
}

}  // namespace strata::client

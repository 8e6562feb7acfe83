#include "client/feasibility.h"

#include "absl/strings/str_cat.h"
#include "common/units.h"

namespace strata::client {
namespace {

using strata::v1::JobSpec;
using strata::v1::ModelSpec;
using strata::v1::ParallelSpec;

constexpr double kWeightBytes = 4;
constexpr double kGradientBytes = 4;
constexpr double kMomentBytes = 8;

bool ShardsMoments(const JobSpec& job) {
  return job.parallel().shard() != ParallelSpec::SHARD_NONE;
}

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
  const double moments = kMomentBytes * (ShardsMoments(job) ? 1 : data);
  return ParameterCount(job.model()) * (data * (kWeightBytes + kGradientBytes) + moments);
}

absl::Status CheckFits(const JobSpec& job, int64_t memory_bytes) {
  const double needed = LeastBytes(job);
  if (memory_bytes == 0 || needed <= static_cast<double>(memory_bytes)) return absl::OkStatus();
  const double parameters = ParameterCount(job.model());
  return absl::ResourceExhaustedError(absl::StrCat(
      "does not fit: needs at least ", common::FormatBytes(needed), ", this machine has ",
      common::FormatBytes(static_cast<double>(memory_bytes)), " (",
      common::FormatDecimal(parameters, ""), " parameters × ", "(4 B weight + 4 B gradient) × ",
      job.parallel().data(), job.parallel().data() == 1 ? " rank" : " ranks",
      " + 8 B of Adam's moments", ShardsMoments(job) ? " once" : " each", ")"));
}

}  // namespace strata::client

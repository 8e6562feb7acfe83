#include "planner/fit/largest.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "model/family_defaults.h"

namespace strata::planner {
namespace {

using v1::ParallelSpec;

constexpr int64_t kMostSequences = 1 << 16, kMostLayers = 1 << 14, kMostData = 1 << 14;

int64_t Degree(int64_t degree) { return std::max<int64_t>(1, degree); }

int64_t OthersOf(const ParallelSpec& parallel) {
  return Degree(parallel.tensor()) * Degree(parallel.context()) * Degree(parallel.pipeline());
}

// Whole passes of every rank of data.
void FitBatch(v1::JobSpec& job) {
  ParallelSpec& parallel = *job.mutable_parallel();
  v1::TrainSpec& train = *job.mutable_train();
  const int64_t least = Degree(parallel.data()) * Degree(train.micro_batch());
  const int64_t passes = std::max<int64_t>(1, train.global_batch() / least);
  train.set_global_batch(least * passes);
  const bool by_leaf = parallel.shard() >= ParallelSpec::SHARD_ZERO2;
  parallel.set_virtual_shards(by_leaf ? 0 : Degree(parallel.data()));
}

void SetLayers(int64_t layers, FitRequest& request) {
  model::ModelSpec& spec = request.model.spec;
  spec.layers = layers;
  if (!spec.full_attention.empty()) {
    spec.full_attention = model::UsualFullAttention(spec.family, layers);
  }
  request.job.mutable_parallel()->clear_stages();
}

void SetDevices(int64_t devices, FitRequest& request) {
  ParallelSpec& parallel = *request.job.mutable_parallel();
  const int64_t data = std::max<int64_t>(1, devices / OthersOf(parallel));
  const bool says = parallel.shard() > ParallelSpec::SHARD_NONE;
  parallel.set_data(data);
  if (!says && data > 1) parallel.set_shard(ParallelSpec::SHARD_ZERO3);
  if (data == 1) parallel.set_shard(ParallelSpec::SHARD_NONE);
  parallel.clear_shard_group();
  if (data > 1) parallel.set_shard_group(data);
  request.job.mutable_resources()->set_ranks(devices);
  v1::TrainSpec& train = *request.job.mutable_train();
  if (!request.batch_given) train.set_global_batch(data * Degree(train.micro_batch()));
}

struct Range {
  int64_t step = 1, most = 1;  // values are step, 2 · step, …, up to `most`
  std::string end;             // why none is beyond `most`
};

Range RangeOf(const FitRequest& request, Quantity quantity) {
  const ParallelSpec& parallel = request.job.parallel();
  const int64_t tensor = Degree(parallel.tensor()), context = Degree(parallel.context());
  switch (quantity) {
    case Quantity::kSequence: {
      const int64_t step = tensor * (context > 1 ? 2 * context : 1);
      const int64_t known = request.model.spec.context;
      return {step, known / step * step,
              absl::StrCat("the model knows no more than ", known, " positions (model.context)")};
    }
    case Quantity::kMicroBatch:
      return {1, kMostSequences, absl::StrCat("no more than ", kMostSequences, " were tried")};
    case Quantity::kLayers: {
      const int64_t stages = Degree(parallel.pipeline()) * Degree(parallel.virtual_stages());
      return {stages, kMostLayers / stages * stages,
              absl::StrCat("no more than ", kMostLayers, " were tried")};
    }
    case Quantity::kDevices: {
      const int64_t step = OthersOf(parallel);
      return {step, step * kMostData, "the layout itself needs as many"};
    }
  }
  return {};
}

// The least n in [1, most] of which `good` holds, where it holds of all beyond; most + 1: of none.
template <typename Predicate>
int64_t FirstGood(int64_t most, const Predicate& good) {
  int64_t bad = 0, n = 1;
  while (n < most && !good(n)) bad = std::exchange(n, std::min(most, 2 * n));
  if (n == most && !good(n)) return most + 1;
  while (n - bad > 1) {
    const int64_t middle = bad + (n - bad) / 2;
    good(middle) ? n = middle : bad = middle;
  }
  return n;
}

std::string WhyNot(const FitRequest& request) {
  const absl::StatusOr<Fit> fit = ReadFit(request);
  return fit.ok() ? fit->verdict.ToText() : std::string(fit.status().message());
}

}  // namespace

FitRequest With(const FitRequest& request, Quantity quantity, int64_t value) {
  FitRequest changed = request;
  switch (quantity) {
    case Quantity::kSequence:
      changed.job.mutable_train()->set_sequence(value);
      return changed;
    case Quantity::kMicroBatch:
      changed.job.mutable_train()->set_micro_batch(value);
      break;
    case Quantity::kLayers:
      SetLayers(value, changed);
      break;
    case Quantity::kDevices:
      SetDevices(value, changed);
      break;
  }
  FitBatch(changed.job);
  return changed;
}

absl::StatusOr<Largest> FindLargest(const FitRequest& request, Quantity quantity) {
  const Range range = RangeOf(request, quantity);
  const int64_t most = std::max<int64_t>(1, range.most / range.step);
  const auto at = [&](int64_t n) { return With(request, quantity, n * range.step); };
  const auto fits = [&](int64_t n) {
    const absl::StatusOr<Fit> fit = ReadFit(at(n));
    return fit.ok() && fit->verdict.fits;
  };
  Largest largest{.step = range.step};
  int64_t n = 0, beyond = 0;
  if (quantity == Quantity::kDevices) {
    n = FirstGood(most, fits);
    largest.found = n <= most;
    n = std::min(n, most);
    beyond = n - 1;
  } else {
    n = FirstGood(most, [&](int64_t m) { return !fits(m); }) - 1;
    largest.found = n >= 1;
    n = std::max<int64_t>(n, 1);
    beyond = n + 1;
  }
  largest.value = n * range.step;
  largest.request = at(n);
  ASSIGN_OR_RETURN(largest.fit, ReadFit(largest.request));
  if (!largest.found) {
    largest.bound = largest.fit.verdict.ToText();
  } else {
    largest.bound = beyond < 1 || beyond > most ? range.end : WhyNot(at(beyond));
  }
  return largest;
}

}  // namespace strata::planner

#include "planner/fit/ways.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/lora_proto.h"
#include "planner/fit/closed_form.h"

namespace strata::planner {
namespace {

using v1::OptimizerSpec;
using v1::ParallelSpec;
using v1::TierShares;
using v1::TrainSpec;

constexpr int kMostDevices = 4096;
constexpr int64_t kMostTensor = 8, kMostContext = 16, kMostStages = 64;
constexpr int64_t kLeastSequence = 128;
constexpr int64_t kLoraRank = 16;
constexpr double kSpare = 1.02;  // of SSD, beside what the plan needs

// A change of a request; false: it does not apply.
using Change = std::function<bool(FitRequest& request)>;

void SetBatch(int64_t micro_batch, FitRequest& request) {
  ParallelSpec& parallel = *request.job.mutable_parallel();
  TrainSpec& train = *request.job.mutable_train();
  const int64_t data = std::max<int64_t>(1, parallel.data());
  if (!request.batch_given) {
    train.set_global_batch(data * std::max<int64_t>(1, parallel.pipeline()) * micro_batch);
  }
  train.set_global_batch(std::max(train.global_batch(), data));
  if (train.global_batch() % (data * micro_batch) != 0) {
    train.set_global_batch(data * micro_batch);
  }
  train.set_micro_batch(micro_batch);
  const bool by_leaf = parallel.shard() >= ParallelSpec::SHARD_ZERO2;
  parallel.set_virtual_shards(by_leaf ? 0 : data);
}

bool OnePerPass(FitRequest& request) {
  if (request.job.train().micro_batch() <= 1) return false;
  SetBatch(1, request);
  return true;
}

bool Recompute(v1::RecomputeSpec::Mode mode, FitRequest& request) {
  if (request.inference) return false;
  v1::RecomputeSpec& recompute = *request.job.mutable_parallel()->mutable_recompute();
  if (recompute.mode() >= mode) return false;
  recompute.Clear();
  recompute.set_mode(mode);
  return true;
}

bool Shard(ParallelSpec::Shard level, FitRequest& request) {
  ParallelSpec& parallel = *request.job.mutable_parallel();
  if (request.inference || parallel.data() < 2 || parallel.shard() >= level) return false;
  parallel.set_shard(level);
  parallel.set_shard_group(parallel.data());
  SetBatch(std::max<int64_t>(1, request.job.train().micro_batch()), request);
  return true;
}

void Put(bool on_ssd, TierShares* shares) {
  shares->Clear();
  on_ssd ? shares->set_ssd(1) : shares->set_host(1);
}

v1::MemorySpec& MemoryOf(FitRequest& request) {
  CompleteRequest(request);
  return *request.job.mutable_memory();
}

void Stream(v1::MemorySpec& memory) {
  memory.mutable_stream()->Clear();
  memory.mutable_stream()->set_resident(2);
  memory.mutable_stream()->set_moved(1);
}

enum : unsigned { kParameters = 1, kGradients = 2, kOptimizer = 4, kActivations = 8 };

// Data ranks share what they move: each its own copy would fill the host.
bool Place(unsigned classes, bool on_ssd, FitRequest& request) {
  Shard((classes & kParameters) != 0  ? ParallelSpec::SHARD_ZERO3
        : (classes & kGradients) != 0 ? ParallelSpec::SHARD_ZERO2
        : (classes & kOptimizer) != 0 ? ParallelSpec::SHARD_ZERO1
                                      : ParallelSpec::SHARD_NONE,
        request);
  // Of a CPU rank without an arena of its own the device is the host.
  if (request.device.is_cpu && !on_ssd && !request.job.memory().has_device()) return false;
  if (request.device.host_is_device && !on_ssd) return false;  // it frees nothing
  v1::MemorySpec& memory = MemoryOf(request);
  v1::PlaceSpec& place = *memory.mutable_place();
  if (request.inference) classes &= kParameters;
  if ((classes & kParameters) != 0) {
    Put(on_ssd, place.mutable_parameters());
    Stream(memory);
  }
  if ((classes & kGradients) != 0) Put(on_ssd, place.mutable_gradients());
  if ((classes & kOptimizer) != 0) Put(on_ssd, place.mutable_optimizer());
  if ((classes & kActivations) != 0) Put(on_ssd, place.mutable_activations());
  if ((classes & kGradients) != 0) {
    request.job.mutable_parallel()->set_update_policy(ParallelSpec::UPDATE_POLICY_SPOOLED);
  }
  return classes != 0;
}

// Of a coherent link: pages of states come and go.
bool Unified(FitRequest& request) {
  if (request.inference) return false;
  Shard(ParallelSpec::SHARD_ZERO1, request);
  TierShares& states = *MemoryOf(request).mutable_place()->mutable_optimizer();
  states.Clear();
  states.set_unified(1);
  return true;
}

bool NarrowState(FitRequest& request) {
  if (request.inference || model::TrainsAdapters(request.job.train())) return false;
  TrainSpec& train = *request.job.mutable_train();
  OptimizerSpec& optimizer = *train.mutable_optimizer();
  if (optimizer.state() == OptimizerSpec::STATE_8BIT) return false;
  train.set_precision(std::max(train.precision(), TrainSpec::PRECISION_BF16));
  if (train.precision() == TrainSpec::PRECISION_BF16) {
    optimizer.set_master(OptimizerSpec::MASTER_SPLIT);
  }
  optimizer.set_state(OptimizerSpec::STATE_8BIT);
  return true;
}

bool Adapters(TrainSpec::Method method, FitRequest& request) {
  TrainSpec& train = *request.job.mutable_train();
  if (request.inference || train.method() >= method) return false;
  train.set_method(method);
  train.set_precision(std::max(train.precision(), TrainSpec::PRECISION_BF16));
  if (!train.lora().has_rank()) train.mutable_lora()->set_rank(kLoraRank);
  if (!train.lora().has_alpha()) train.mutable_lora()->set_alpha(2 * kLoraRank);
  if (train.lora().targets().empty()) train.mutable_lora()->add_targets("all-linear");
  if (method == TrainSpec::METHOD_QLORA && !train.has_quantize()) {
    train.mutable_quantize()->set_type(v1::QuantizeSpec::TYPE_NF4);
    train.mutable_quantize()->set_block(64);
    train.mutable_quantize()->set_double_(true);
  }
  return true;
}

void SetData(int64_t data, FitRequest& request) {
  ParallelSpec& parallel = *request.job.mutable_parallel();
  const int64_t others = std::max<int64_t>(1, parallel.tensor()) *
                         std::max<int64_t>(1, parallel.context()) *
                         std::max<int64_t>(1, parallel.pipeline());
  parallel.set_data(data);
  parallel.set_shard(ParallelSpec::SHARD_ZERO3);
  parallel.set_shard_group(data);
  request.job.mutable_resources()->set_ranks(data * others);
  SetBatch(1, request);
}

// More ranks that share each layer, or each sequence; whatever is shared among data ranks stays.
bool Split(int64_t (ParallelSpec::*get)() const, void (ParallelSpec::*set)(int64_t), int64_t degree,
           FitRequest& request) {
  ParallelSpec& parallel = *request.job.mutable_parallel();
  if ((parallel.*get)() >= degree) return false;
  (parallel.*set)(degree);
  parallel.clear_stages();
  request.job.mutable_resources()->set_ranks(
      std::max<int64_t>(1, parallel.data()) * std::max<int64_t>(1, parallel.tensor()) *
      std::max<int64_t>(1, parallel.context()) * std::max<int64_t>(1, parallel.pipeline()));
  return true;
}

bool NarrowWeights(program::DType type, const char* name, FitRequest& request) {
  if (!request.inference || program::IsQuantised(request.weights)) return false;
  request.weights = type;
  request.weights_name = name;
  return true;
}

// The disk that a way needs, where the job names none.
void SizeDisk(const Fit& fit, FitRequest& request) {
  v1::MemorySpec& memory = *request.job.mutable_memory();
  if (memory.ssd_size() > 0) return;
  int64_t most = 0;
  for (const StageMemory& stage : fit.memory.stages) {
    most = std::max(most, stage.tier(program::Tier::kSsd).arena_bytes);
  }
  if (most == 0) return;
  const int ranks = fit.memory.mesh.ranks();
  v1::SsdPath& path = *memory.add_ssd();
  path.set_path("DIR");
  path.set_size(static_cast<int64_t>(kSpare * static_cast<double>(most) *
                                     (request.device.is_cpu ? ranks : std::min(ranks, 8))));
}

class Search {
 public:
  Search(const FitRequest& request, std::vector<Way>& ways) : base_(request), ways_(ways) {}

  const FitRequest& request() const { return base_; }

  // The first of these that fits: the change alone; with recompute; with passes of one sequence,
  // too.
  bool Try(const std::string& text, const Change& change) {
    for (const int more : {0, 1, 2}) {
      if (more > 0 && recompute_does_) return false;  // a way by itself
      FitRequest request = base_;
      if (!change(request)) return false;
      std::string said = text;
      if (more > 0 && Recompute(v1::RecomputeSpec::MODE_FULL, request)) {
        absl::StrAppend(&said, ", everything computed again in the backward pass");
      }
      if (more > 1) {
        if (!OnePerPass(request)) return false;
        absl::StrAppend(&said, ", one sequence a pass");
      }
      if (Keep(said, std::move(request))) return true;
    }
    return false;
  }

  bool Keep(const std::string& text, FitRequest request) {
    if (IsTooMuch(request)) return false;
    absl::StatusOr<Fit> fit = ReadFit(request);
    if (!fit.ok() || !fit->verdict.fits) return false;
    SizeDisk(*fit, request);
    if (IsKept(request)) return true;
    ways_.push_back({text, std::move(request), *std::move(fit)});
    return true;
  }

  void SmallerPasses() {
    for (int64_t micro = base_.job.train().micro_batch() / 2; micro >= 1; micro /= 2) {
      FitRequest request = base_;
      SetBatch(micro, request);
      const std::string text =
          absl::StrCat("passes of ", micro, micro == 1 ? " sequence" : " sequences",
                       base_.batch_given ? ": the same batch, more passes" : "");
      if (Keep(text, std::move(request))) return;
    }
  }

  void Recomputing() {
    for (const auto& [mode, text] :
         {std::pair(v1::RecomputeSpec::MODE_SELECTIVE, "less kept for the backward pass"),
          std::pair(v1::RecomputeSpec::MODE_FULL,
                    "everything computed again in the backward pass")}) {
      FitRequest request = base_;
      if (!Recompute(mode, request)) continue;
      recompute_does_ = Keep(text, request);
      if (recompute_does_) return;
      if (mode == v1::RecomputeSpec::MODE_FULL && OnePerPass(request)) {
        recompute_does_ = Keep(absl::StrCat(text, ", one sequence a pass"), request);
      }
    }
  }

  void MoreDevices() {
    if (base_.inference) return;
    const int64_t data = std::max<int64_t>(1, base_.job.parallel().data());
    Doubled(2 * data, kMostDevices, " ranks of data that share parameters, gradients and optimizer",
            [](int64_t ranks, FitRequest& request) {
              SetData(ranks, request);
              return true;
            });
  }

  // Degrees beside that of data, each by itself: 2, 4, 8, …
  void MoreDegrees() {
    if (base_.inference) {
      Degrees(" ranks that have some of the layers each", &ParallelSpec::pipeline,
              &ParallelSpec::set_pipeline, kMostStages);
      return;
    }
    Degrees(" ranks that share every layer (tensor)", &ParallelSpec::tensor,
            &ParallelSpec::set_tensor, kMostTensor);
    Degrees(" ranks that share every sequence (context)", &ParallelSpec::context,
            &ParallelSpec::set_context, kMostContext);
  }

  void FewerTokens() {
    const auto change = [](int64_t tokens, FitRequest& request) {
      request.job.mutable_train()->set_sequence(tokens);
      return true;
    };
    int64_t tokens = base_.job.train().sequence() / 2;
    if (tokens < kLeastSequence || !CanFit(kLeastSequence, change)) return;
    for (; tokens >= kLeastSequence; tokens /= 2) {
      if (Try(absl::StrCat("sequences of ", tokens, " tokens"),
              [&](FitRequest& r) { return change(tokens, r); })) {
        return;
      }
    }
  }

 private:
  using ChangeTo = std::function<bool(int64_t value, FitRequest& request)>;

  // Whether the change fits at its extreme, with all that Try adds.
  bool CanFit(int64_t value, const ChangeTo& change) const {
    FitRequest request = base_;
    if (!change(value, request)) return false;
    Recompute(v1::RecomputeSpec::MODE_FULL, request);
    OnePerPass(request);
    if (IsTooMuch(request)) return false;
    const absl::StatusOr<Fit> fit = ReadFit(request);
    return fit.ok() && fit->verdict.fits;
  }

  void Doubled(int64_t first, int64_t most, const char* text, const ChangeTo& change) {
    int64_t last = first;
    while (2 * last <= most) last *= 2;
    while (last > first && !CanFit(last, change)) {
      // Either no number does, or this one is not legal: a smaller one may be.
      FitRequest request = base_;
      if (change(last, request) && ReadMemoryOfJob(request).ok()) return;
      last /= 2;
    }
    for (int64_t value = first; value <= last; value *= 2) {
      if (Try(absl::StrCat(value, text), [&](FitRequest& r) { return change(value, r); })) return;
    }
  }

  void Degrees(const char* text, int64_t (ParallelSpec::*get)() const,
               void (ParallelSpec::*set)(int64_t), int64_t most) {
    Doubled(2, most, text,
            [&](int64_t degree, FitRequest& r) { return Split(get, set, degree, r); });
  }

  // Without building anything.
  static bool IsTooMuch(const FitRequest& request) {
    int64_t limit = request.device.is_cpu ? 0 : request.device.bytes;
    if (request.device_limit_given && request.job.memory().has_device()) {
      limit = request.job.memory().device();
    }
    return limit > 0 && LeastComputeBytes(request) > limit;
  }

  // The same way under another name.
  bool IsKept(const FitRequest& request) const {
    const std::string job = request.job.SerializeAsString();
    return std::any_of(ways_.begin(), ways_.end(), [&](const Way& way) {
      return way.request.weights == request.weights && way.request.job.SerializeAsString() == job;
    });
  }

  const FitRequest& base_;
  std::vector<Way>& ways_;
  bool recompute_does_ = false;
};

void TryShards(Search& search) {
  for (const auto& [level, text] :
       {std::pair(ParallelSpec::SHARD_ZERO1, "the optimizer's state"),
        std::pair(ParallelSpec::SHARD_ZERO2, "gradients and the optimizer's state"),
        std::pair(ParallelSpec::SHARD_ZERO3, "parameters, gradients and the optimizer's state")}) {
    const ParallelSpec::Shard shard = level;
    const bool found = search.Try(absl::StrCat("the data ranks share ", text),
                                  [&](FitRequest& r) { return Shard(shard, r); });
    if (found) return;
  }
}

void TryTiers(Search& search) {
  constexpr unsigned kAll = kParameters | kGradients | kOptimizer | kActivations;
  search.Try("layers streamed from host memory, two at a time",
             [](FitRequest& r) { return Place(kParameters, false, r); });
  if (search.request().device.coherent) {
    search.Try("the optimizer's state in unified memory, updated by the device", Unified);
  }
  const std::pair<unsigned, const char*> onto_host[] = {
      {kActivations, "activations in host memory"},
      {kOptimizer, "the optimizer's state in host memory, updated there"},
      {kOptimizer | kGradients, "gradients and the optimizer's state in host memory"},
      {kAll, "everything in host memory, layers streamed"}};
  for (const auto& way : onto_host) {
    if (search.Try(way.second, [&](FitRequest& r) { return Place(way.first, false, r); })) break;
  }
  const std::pair<unsigned, const char*> onto_ssd[] = {
      {kOptimizer, "the optimizer's state on SSD"}, {kAll, "everything on SSD, layers streamed"}};
  for (const auto& way : onto_ssd) {
    if (search.Try(way.second, [&](FitRequest& r) { return Place(way.first, true, r); })) break;
  }
}

void TryAdapters(TrainSpec::Method method, const std::string& text, Search& search) {
  if (search.Try(text, [&](FitRequest& r) { return Adapters(method, r); })) return;
  search.Try(text + ", shared by the data ranks", [&](FitRequest& r) {
    return Shard(ParallelSpec::SHARD_ZERO3, r) && Adapters(method, r);
  });
}

}  // namespace

std::vector<Way> FindWays(const FitRequest& request, const WayCost& cost) {
  std::vector<Way> ways;
  Search search(request, ways);
  TryShards(search);
  search.SmallerPasses();
  search.Recomputing();
  TryTiers(search);
  search.MoreDevices();
  search.MoreDegrees();
  search.FewerTokens();
  search.Try("bf16, the optimizer's state in 8 bits: other numbers", NarrowState);
  search.Try("weights in 8 bits (--precision int8)",
             [](FitRequest& r) { return NarrowWeights(program::DType::kInt8, "int8", r); });
  search.Try("weights in 4 bits (--precision nf4)",
             [](FitRequest& r) { return NarrowWeights(program::DType::kNf4, "nf4", r); });
  TryAdapters(TrainSpec::METHOD_LORA, "LoRA: adapters beside frozen weights in 16 bits", search);
  TryAdapters(TrainSpec::METHOD_QLORA, "QLoRA: adapters beside frozen weights in 4 bits", search);
  if (cost == nullptr) return ways;
  for (Way& way : ways) way.seconds = cost(way.request);
  std::stable_sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) {
    if ((a.seconds < 0) != (b.seconds < 0)) return b.seconds < 0;
    return a.seconds < b.seconds;
  });
  return ways;
}

}  // namespace strata::planner

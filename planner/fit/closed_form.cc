#include "planner/fit/closed_form.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "model/lora_proto.h"
#include "model/passes/streamed_rows.h"
#include "program/compose/plan.h"

namespace strata::planner {
namespace {

using program::DType;
using program::Tier;
using v1::OptimizerSpec;
using v1::TrainSpec;
using Kind = FitModel::Kind;

constexpr int64_t kPage = 4096;
constexpr double kMostBytes = 0x1p59;         // of a class: sums of all of them are still numbers
constexpr double kMostLogitParts = 8192;      // of a pass, whose program is still made in a second
constexpr double kNf4Bytes = 8512.0 / 16384;  // with scales in 8 bits (program/ir/types.h)
constexpr double kPrefillRows = 64;

double D(int64_t value) { return static_cast<double>(value); }

struct Numbers {
  double matrix = 4, other = 4;  // bytes of a weight: of blocks' matrices, and of the rest
  double activation = 4;         // of a value kept for the backward pass
  double product_input = 4;      // of one that a matrix product keeps
};

Numbers NumbersOf(const FitRequest& request) {
  if (request.inference) {
    switch (request.weights) {
      case DType::kF32:
        return {};
      case DType::kInt8:
        return {1, 2, 2, 2};
      case DType::kNf4:
        return {kNf4Bytes, 2, 2, 2};
      default:
        return {2, 2, 2, 2};
    }
  }
  const TrainSpec& train = request.job.train();
  Numbers numbers;
  if (train.precision() > TrainSpec::PRECISION_F32) numbers = {2, 2, 2, 2};
  // Weights in both orientations, a byte each, as products read them (NVIDIA's Transformer Engine,
  // fp8_model_init); what products keep has a byte, too.
  if (train.precision() == TrainSpec::PRECISION_FP8) numbers.product_input = 1;
  if (train.method() == TrainSpec::METHOD_QLORA) {
    numbers.matrix = train.quantize().type() == v1::QuantizeSpec::TYPE_INT8 ? 1 : kNf4Bytes;
  }
  return numbers;
}

// Bytes that a layer keeps of a token, with flash attention and no dropout.
double KeptPerToken(const FitModel& model, const Numbers& n) {
  const model::ModelSpec& s = model.spec;
  const double h = D(s.hidden), f = D(s.ffn), width = D(s.attention_width());
  if (model.kind == Kind::kPlain) return h * (n.product_input + n.activation);
  const double kv = D(s.kv_heads * s.head_size);
  // Inputs of the two norms, of the first products and of the second ones; queries, keys, values.
  const double attention = 2 * h * n.activation + h * n.product_input +
                           (width + 2 * kv) * n.activation + width * n.product_input +
                           4 * D(s.heads);
  const bool gated = s.family != model::Family::kGpt2;
  const double feed =
      h * n.product_input + f * n.product_input + (gated ? 2 : 1) * f * n.activation;
  return attention + feed * D(model.experts_per_token) +
         (model.experts > 1 ? 4 * D(model.experts) : 0);
}

double MomentBytes(const OptimizerSpec& optimizer) {
  double each = 4;
  if (optimizer.state() == OptimizerSpec::STATE_BF16) each = 2;
  if (optimizer.state() == OptimizerSpec::STATE_8BIT) each = 1 + 4.0 / 256;
  return optimizer.name() == OptimizerSpec::NAME_SGD ? each : 2 * each;
}

struct Degrees {
  double tensor = 1, context = 1, pipeline = 1, shard = 1;
  v1::ParallelSpec::Shard level = v1::ParallelSpec::SHARD_NONE;

  double of(v1::ParallelSpec::Shard from) const { return level >= from ? shard : 1; }
};

Degrees DegreesOf(const v1::ParallelSpec& parallel) {
  const auto at_least_1 = [](int64_t n) { return D(std::max<int64_t>(1, n)); };
  Degrees degrees{at_least_1(parallel.tensor()), at_least_1(parallel.context()),
                  at_least_1(parallel.pipeline())};
  degrees.level = parallel.shard();
  degrees.shard =
      parallel.shard_group() > 0 ? D(parallel.shard_group()) : at_least_1(parallel.data());
  return degrees;
}

// A class of bytes, divided among the tiers as the job places it.
class Filling {
 public:
  Filling(Tier compute, StageMemory& stage) : compute_(compute), stage_(stage) {}

  void Add(ByteClass c, double bytes) { Put(compute_, c, bytes); }
  void Add(ByteClass c, double bytes, const v1::TierShares& shares) {
    // Unified memory is at home on the host.
    Put(Tier::kHost, c, bytes * (shares.host() + shares.unified()));
    Put(Tier::kSsd, c, bytes * shares.ssd());
    Put(compute_, c, bytes * (1 - shares.host() - shares.unified() - shares.ssd()));
  }
  void Close() {
    for (TierBytes& tier : stage_.tiers) {
      for (const int64_t bytes : tier.bytes) tier.arena_bytes += bytes;
      const int64_t whole = common::RoundUp(tier.arena_bytes, kPage);
      tier.of(ByteClass::kRounding) += whole - tier.arena_bytes;
      tier.arena_bytes = whole;
    }
  }

 private:
  void Put(Tier tier, ByteClass c, double bytes) {
    int64_t& held = stage_.tier(tier).of(c);
    held = std::llround(std::min(D(held) + std::ceil(bytes), kMostBytes));
  }

  const Tier compute_;
  StageMemory& stage_;
};

// Rooms that programs have at once for ranges of state: one is updated, others come and go.
constexpr double kRangesAtOnce = 4;

// What is at home in unified memory has rooms on the device. Of weights: for the layers that are
// there at once, and for the tables at the ends. Bytes: of all state, of a range of it, of all
// weights, of a layer's and the ends'.
struct Unified {
  double state = 0, range = 0, weights = 0, layer = 0, ends = 0;
};
void AddRooms(const v1::MemorySpec& memory, const Unified& of, Filling& filling) {
  const v1::PlaceSpec& place = memory.place();
  const double layers = memory.stream().resident() > 0 ? D(memory.stream().resident()) : 3;
  const double rooms =
      std::min(of.state * place.optimizer().unified(), kRangesAtOnce * of.range) +
      std::min(of.weights, layers * of.layer + of.ends) * place.parameters().unified();
  if (rooms > 0) filling.Add(ByteClass::kStaging, rooms);
}

void AddWeights(const FitRequest& request, const Numbers& n, const Degrees& degrees,
                Filling& filling) {
  const TrainSpec& train = request.job.train();
  const v1::PlaceSpec& place = request.job.memory().place();
  const double cut = degrees.tensor * degrees.pipeline;
  const double matrices = request.model.block_matrices() / cut;
  const double others = request.model.parameters() / cut - matrices;
  double weights =
      (matrices * n.matrix + others * n.other) / degrees.of(v1::ParallelSpec::SHARD_ZERO3);
  double trained = matrices + others;
  const bool adapters = model::TrainsAdapters(train);
  if (adapters) {
    trained = request.model.adapter_widths() * D(model::LoraOf(train).rank) / cut;
    weights += trained * n.other;
  }
  filling.Add(ByteClass::kParameters, weights, place.parameters());
  if (request.inference) return;
  const double gradient = train.optimizer().gradient() == OptimizerSpec::GRADIENT_BF16 ? 2 : 4;
  filling.Add(ByteClass::kGradients, trained * gradient / degrees.of(v1::ParallelSpec::SHARD_ZERO2),
              place.gradients());
  const double held = trained / degrees.of(v1::ParallelSpec::SHARD_ZERO1);
  const bool split = train.optimizer().master() == OptimizerSpec::MASTER_SPLIT;
  const double master = n.other == 4 ? 0 : split ? 2 : 4;
  const double moments = MomentBytes(train.optimizer());
  filling.Add(ByteClass::kMaster, held * master, place.optimizer());
  filling.Add(ByteClass::kOptimizer, held * moments, place.optimizer());
  AddRooms(request.job.memory(),
           {.state = held * (master + moments),
            .range = D(program::kRangeBytes / 4) * (master + moments),
            .weights = weights,
            .layer = matrices * n.matrix * degrees.pipeline / D(request.model.spec.layers),
            .ends = others * n.other},
           filling);
}

double TokensOfPass(const FitRequest& request, const Degrees& degrees) {
  const TrainSpec& train = request.job.train();
  return D(train.micro_batch() * train.sequence()) / degrees.context;
}

double VocabularyShare(int64_t vocab, const Degrees& degrees) {
  return D(program::ShareOf(vocab, static_cast<int64_t>(degrees.tensor)));
}

bool Has16BitsOnGpu(const FitRequest& request) {
  return request.job.train().precision() != TrainSpec::PRECISION_F32 && !request.device.is_cpu;
}

double BytesOfLogit(const FitRequest& request) { return Has16BitsOnGpu(request) ? 2 : 4; }

// Of logits that exist at once.
double LogitRows(const FitRequest& request, double tokens, double vocab) {
  const auto row_bytes = static_cast<int64_t>(BytesOfLogit(request) * vocab);
  return std::min(tokens, D(model::StreamedRows(row_bytes, Has16BitsOnGpu(request))));
}

// What each layer but the first gets, in 16 or 32 bits, is kept whatever is computed again.
double LeastActivations(const FitRequest& request, const Numbers& n, const Degrees& degrees) {
  if (request.inference) return 0;
  const v1::TierShares& shares = request.job.memory().place().activations();
  const double layers = std::floor(D(request.model.spec.layers) / degrees.pipeline) - 1;
  return std::max(0.0, layers) * D(request.model.spec.hidden) * n.activation *
         TokensOfPass(request, degrees) / degrees.tensor * (1 - shares.host() - shares.ssd());
}

void AddActivations(const FitRequest& request, const Numbers& n, const Degrees& degrees,
                    Filling& filling) {
  const FitModel& model = request.model;
  const TrainSpec& train = request.job.train();
  const double tokens = TokensOfPass(request, degrees);
  const double kept = KeptPerToken(model, n) * tokens / degrees.tensor;
  const double boundary = D(model.spec.hidden) * n.activation * tokens / degrees.tensor;
  const bool full = request.job.parallel().recompute().mode() == v1::RecomputeSpec::MODE_FULL;
  // 1F1B keeps as many passes as there are stages, of as many layers fewer: all layers' of one.
  const double layers = D(model.spec.layers);
  filling.Add(ByteClass::kActivations, (full ? boundary : kept) * layers + boundary,
              request.job.memory().place().activations());
  filling.Add(ByteClass::kWorkspace, kept);
  const double vocab = VocabularyShare(model.spec.vocab, degrees);
  const double rows = model.kind == Kind::kVision || model.kind == Kind::kPlain
                          ? D(train.micro_batch())
                          : LogitRows(request, tokens, vocab);
  filling.Add(ByteClass::kLogits, BytesOfLogit(request) * rows * vocab);
  if (degrees.of(v1::ParallelSpec::SHARD_ZERO3) > 1) {  // this layer's weights, and the next one's
    filling.Add(ByteClass::kParameters,
                2 * n.matrix * model.block_matrices() / layers / degrees.tensor);
  }
  if (degrees.of(v1::ParallelSpec::SHARD_ZERO1) > 1) {  // a layer's gradients, as they arrive
    filling.Add(ByteClass::kCommunication,
                4 * model.block_matrices() / D(model.spec.layers) / degrees.tensor);
  }
}

void AddDecoding(const FitRequest& request, const Numbers& n, const Degrees& degrees,
                 Filling& filling) {
  const model::ModelSpec& s = request.model.spec;
  const TrainSpec& train = request.job.train();
  const double sequences = D(train.micro_batch());
  const double row = D(2 * s.kv_heads * s.head_size * s.layers) * n.activation;
  filling.Add(ByteClass::kCache,
              row * sequences * D(train.sequence()) / degrees.tensor / degrees.pipeline);
  filling.Add(ByteClass::kWorkspace, KeptPerToken(request.model, n) *
                                         std::min(kPrefillRows, D(train.sequence())) * sequences /
                                         degrees.tensor);
  filling.Add(ByteClass::kLogits, 4 * sequences * VocabularyShare(s.vocab, degrees));
}

}  // namespace

std::string WhyNoProgram(const FitRequest& request) {
  switch (request.model.kind) {
    case Kind::kMoe:
      return "models with experts are not built yet";
    case Kind::kEncoder:
    case Kind::kVision:
    case Kind::kPlain:
      return "models of this kind are not built yet";
    case Kind::kFamily:
      break;
  }
  const v1::ParallelSpec& parallel = request.job.parallel();
  if (request.inference) {
    if (program::IsQuantised(request.weights)) return "text is not generated from such weights yet";
    if (request.job.train().micro_batch() > 1) return "one sequence is generated at a time yet";
    if (parallel.tensor() > 1 || parallel.data() > 1) {
      return "ranks that generate text share layers only yet";
    }
    return "";
  }
  if (request.job.train().precision() == TrainSpec::PRECISION_FP8) return "fp8 is not built yet";
  const Degrees degrees = DegreesOf(parallel);
  const double tokens = TokensOfPass(request, degrees);
  if (tokens / LogitRows(request, tokens, VocabularyShare(request.model.spec.vocab, degrees)) >
      kMostLogitParts) {
    return absl::StrCat("the program of passes of ", tokens, " tokens would be too long");
  }
  return "";
}

int64_t LeastComputeBytes(const FitRequest& request) {
  const bool tiers = request.job.has_memory() || !request.device.is_cpu;
  const Tier compute = tiers ? Tier::kDevice : Tier::kHost;
  StageMemory stage;
  Filling filling(compute, stage);
  AddWeights(request, NumbersOf(request), DegreesOf(request.job.parallel()), filling);
  const TierBytes& tier = stage.tier(compute);
  const Numbers n = NumbersOf(request);
  const Degrees degrees = DegreesOf(request.job.parallel());
  const double activations = std::min(LeastActivations(request, n, degrees), kMostBytes);
  if (model::TrainsAdapters(request.job.train())) {  // how many depends on their targets
    const FitModel& model = request.model;
    const double all =
        n.matrix * model.block_matrices() + n.other * (model.parameters() - model.block_matrices());
    const v1::TierShares& shares = request.job.memory().place().parameters();
    return std::llround(activations + all * (1 - shares.host() - shares.unified() - shares.ssd()) /
                                          degrees.tensor / degrees.pipeline /
                                          degrees.of(v1::ParallelSpec::SHARD_ZERO3));
  }
  return std::llround(activations) + tier.of(ByteClass::kParameters) + tier.of(ByteClass::kMaster) +
         tier.of(ByteClass::kOptimizer);
}

MemoryOfJob ClosedForm(const FitRequest& request) {
  MemoryOfJob memory;
  memory.from_program = false;
  memory.compute_tier =
      request.job.has_memory() || !request.device.is_cpu ? Tier::kDevice : Tier::kHost;
  const v1::ParallelSpec& parallel = request.job.parallel();
  const Degrees degrees = DegreesOf(parallel);
  program::GroupSizes& sizes = memory.mesh.sizes;
  sizes.data = static_cast<int>(std::max<int64_t>(1, parallel.data()));
  sizes.tensor = static_cast<int>(degrees.tensor);
  sizes.context = static_cast<int>(degrees.context);
  sizes.pipeline = static_cast<int>(degrees.pipeline);
  sizes.shard =
      parallel.shard() > v1::ParallelSpec::SHARD_NONE ? static_cast<int>(degrees.shard) : 1;
  const Numbers numbers = NumbersOf(request);
  StageMemory stage;
  Filling filling(memory.compute_tier, stage);
  AddWeights(request, numbers, degrees, filling);
  if (request.inference) {
    AddDecoding(request, numbers, degrees, filling);
  } else {
    AddActivations(request, numbers, degrees, filling);
  }
  filling.Close();
  for (const TierBytes& tier : stage.tiers) {
    stage.largest_activations += tier.of(ByteClass::kActivations);
    stage.largest_logits += tier.of(ByteClass::kLogits);
  }
  memory.stages.assign(static_cast<size_t>(sizes.pipeline), stage);
  return memory;
}

}  // namespace strata::planner

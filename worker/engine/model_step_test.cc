// Whole steps of a small Llama-style model: the programs that the builders make, on real kernels,
// over the loopback communicator.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/loopback.h"
#include "gtest/gtest.h"
#include "kernels/rope.h"
#include "model/families/llama.h"
#include "model/initialize.h"
#include "model/optimizer/adamw.h"
#include "program/builder/data_parallel.h"
#include "program/builder/decode.h"
#include "worker/engine/communication_binding.h"
#include "worker/engine/engine.h"

namespace strata::worker {
namespace {

using program::Group;
using program::Scalar;

constexpr int kShards = 4;
constexpr int64_t kBatch = 8, kSequence = 12;

model::ModelSpec Spec() {
  return {.layers = 2,
          .hidden = 24,
          .heads = 4,
          .kv_heads = 2,
          .head_size = 6,
          .ffn = 40,
          .vocab = 29,
          .context = 32,
          .tied_embeddings = true,
          .initial_std = 0.1};
}

model::EmitOptions Emission() {
  return {.micro_batch = 1,
          .sequence = kSequence,
          .prefill_chunk = 8,
          .threads = 2,
          .set_ranges = kShards};
}

// A text that can be learned: each token follows from the one before it.
int32_t TokenAt(int64_t sample, int64_t position) {
  int64_t token = sample % 29;
  for (int64_t i = 0; i < position; ++i) token = (token * 3 + 1) % 29;
  return static_cast<int32_t>(token);
}

class TextHost final : public HostOps {
 public:
  explicit TextHost(int rank) : rank_(rank) {}
  absl::Status LoadBatch(int32_t* tokens, int32_t* targets, int64_t samples,
                         int64_t sequence) override {
    for (int64_t i = 0; i < samples * sequence; ++i) {
      const int64_t row = samples * rank_ + i / sequence, position = i % sequence;
      const int64_t sample = step * kBatch + row;
      tokens[i] = TokenAt(sample, position);
      targets[i] = (row * sequence + position) % 5 == 4 ? -1 : TokenAt(sample, position + 1);
    }
    return absl::OkStatus();
  }
  absl::Status LoadScalars(double* scalars) override {
    scalars[static_cast<int>(Scalar::kStep)] = static_cast<double>(step);
    scalars[static_cast<int>(Scalar::kApplied)] = static_cast<double>(step - 1);
    scalars[static_cast<int>(Scalar::kLearningRate)] = 0.01;
    scalars[static_cast<int>(Scalar::kInverseTokens)] = 1.0 / (kBatch * kSequence);
    return absl::OkStatus();
  }
  absl::Status Signal(program::Purpose, const std::string&) override { return absl::OkStatus(); }

  int64_t step = 1;

 private:
  int rank_;
};

void FillConstantsAndParameters(Engine& engine, const std::vector<int>& constants,
                                const std::vector<int>& parameters) {
  const model::ModelSpec spec = Spec();
  const auto floats = [&](int slot) {
    const absl::Span<std::byte> bytes = engine.SlotBytes(slot, 0, 0);
    return absl::MakeSpan(reinterpret_cast<float*>(bytes.data()), bytes.size() / 4);
  };
  kernels::BuildRopeTable(model::RopeTableRows(spec, Emission()), spec.head_size, spec.rope_theta,
                          floats(constants[0]).data());
  for (size_t s = 0; s < parameters.size(); ++s) {
    model::FillInitial(engine.programs().sets[s], 1, 0, floats(parameters[s]));
  }
}

absl::StatusOr<program::DataParallelPrograms> Programs(int ranks, bool sharded) {
  auto graph = model::EmitLlama(Spec(), Emission());
  if (!graph.ok()) return graph.status();
  return program::BuildDataParallel(*std::move(graph),
                                    [](const program::ParameterSet& set, int64_t count) {
                                      return model::EmitAdamW(set, {}, count);
                                    },
                                    {.data = ranks,
                                     .virtual_shards = kShards,
                                     .global_batch = kBatch,
                                     .evaluate_batch = kBatch,
                                     .shard_optimizer = sharded,
                                     .gradient_clip = 1.0,
                                     .scratch = CollectiveScratchBytes});
}

struct Outcome {
  std::vector<double> losses, norms;
  double validation = 0;
  std::vector<std::vector<std::byte>> parameters;
  bool operator==(const Outcome&) const = default;
};

void RunRank(int rank, int ranks, bool sharded, int threads, int steps,
             collectives::Communicator* communicator, Outcome& outcome) {
  auto built = Programs(ranks, sharded);
  ASSERT_TRUE(built.ok()) << built.status();
  TextHost host(rank);
  device::ThreadPool pool(threads);
  EngineOptions options;
  options.pool = &pool;
  options.host = &host;
  options.communicator = communicator;
  if (ranks > 1) {
    auto& data = options.groups[Group::kData];
    data.resize(ranks);
    std::iota(data.begin(), data.end(), 0);
  }
  const program::DataParallelSlots slots = built->slots;
  auto engine = Engine::Create(std::move(built->set), options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  FillConstantsAndParameters(**engine, slots.constants, slots.parameters);
  for (int step = 0; step < steps; ++step, ++host.step) {
    const absl::Status status = (*engine)->RunStep(0, step);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ((*engine)->scalar(Scalar::kApply), 1.0);
    outcome.losses.push_back((*engine)->scalar(Scalar::kLoss));
    outcome.norms.push_back((*engine)->scalar(Scalar::kGradientNorm));
  }
  ASSERT_TRUE((*engine)->RunStep(1, steps).ok());
  outcome.validation = (*engine)->scalar(Scalar::kLoss);
  ASSERT_TRUE((*engine)->Drain().ok());
  for (const int slot : slots.parameters) {
    const absl::Span<std::byte> bytes = (*engine)->SlotBytes(slot, 0, steps);
    outcome.parameters.emplace_back(bytes.begin(), bytes.end());
  }
}

std::vector<Outcome> RunWorld(int ranks, bool sharded, int threads = 1, int steps = 5) {
  auto world = collectives::LoopbackWorld(ranks);
  std::vector<Outcome> outcomes(ranks);
  std::vector<std::thread> running;
  for (int r = 0; r < ranks; ++r) {
    running.emplace_back([&, r] {
      RunRank(r, ranks, sharded, threads, steps, ranks > 1 ? world[r].get() : nullptr, outcomes[r]);
    });
  }
  for (std::thread& thread : running) thread.join();
  return outcomes;
}

TEST(ModelStep, LossFalls) {
  const Outcome outcome = RunWorld(1, false, 2, 30)[0];
  ASSERT_EQ(outcome.losses.size(), 30u);
  EXPECT_NEAR(outcome.losses.front(), 0.8 * std::log(29.0), 0.2);  // a fifth is masked
  EXPECT_LT(outcome.losses.back(), 0.7 * outcome.losses.front());
  EXPECT_LT(outcome.validation, 0.7 * outcome.losses.front());
}

TEST(ModelStep, RanksShardingAndThreadsDoNotChangeABit) {
  const std::vector<Outcome> alone = RunWorld(1, false);
  ASSERT_EQ(alone[0].losses.size(), 5u);
  EXPECT_TRUE(RunWorld(1, false, 2)[0] == alone[0]) << "two threads";
  for (const int ranks : {2, 4}) {
    for (const bool sharded : {false, true}) {
      const std::vector<Outcome> outcomes = RunWorld(ranks, sharded);
      for (int r = 0; r < ranks; ++r) {
        EXPECT_EQ(outcomes[r].losses, alone[0].losses);
        EXPECT_EQ(outcomes[r].norms, alone[0].norms);
        EXPECT_TRUE(outcomes[r] == alone[0])
            << "rank " << r << " of " << ranks << ", sharded " << sharded;
      }
    }
  }
}

// Feeds tokens of one text, chunk by chunk.
class PromptHost final : public HostOps {
 public:
  absl::Status LoadBatch(int32_t* tokens, int32_t* targets, int64_t, int64_t chunk) override {
    for (int64_t i = 0; i < chunk; ++i) {
      tokens[i] = i < valid ? TokenAt(7, position + i) : 0;
      targets[i] = -1;
    }
    return absl::OkStatus();
  }
  absl::Status LoadScalars(double* scalars) override {
    scalars[static_cast<int>(Scalar::kPosition)] = static_cast<double>(position);
    scalars[static_cast<int>(Scalar::kValidTokens)] = static_cast<double>(valid);
    return absl::OkStatus();
  }
  absl::Status Signal(program::Purpose, const std::string&) override { return absl::OkStatus(); }

  int64_t position = 0, valid = 0;
};

// The logits after `context` tokens of the text, the first `prefilled` of them in chunks of at
// most 8, the rest one by one.
std::vector<float> LogitsAfter(int64_t context, int64_t prefilled) {
  model::EmitOptions emission = Emission();
  emission.set_ranges = 1;  // nothing is sharded
  auto graph = model::EmitLlama(Spec(), emission);
  EXPECT_TRUE(graph.ok()) << graph.status();
  auto built = program::BuildDecode(*std::move(graph), program::Tier::kHost);
  EXPECT_TRUE(built.ok()) << built.status();
  PromptHost host;
  device::ThreadPool pool(2);
  EngineOptions options;
  options.pool = &pool;
  options.host = &host;
  const program::DecodeSlots slots = built->slots;
  auto engine = Engine::Create(std::move(built->set), options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  FillConstantsAndParameters(**engine, slots.constants, slots.parameters);
  int64_t last_row = 0;
  while (host.position < context) {
    const bool prefill = host.position < prefilled;
    host.valid = prefill ? std::min<int64_t>(8, prefilled - host.position) : 1;
    last_row = host.valid - 1;
    const absl::Status status = (*engine)->RunStep(prefill ? 0 : 1, 0);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) break;
    host.position += host.valid;
  }
  const absl::Span<std::byte> bytes = (*engine)->SlotBytes(slots.logits, 0, 0);
  const auto* logits = reinterpret_cast<const float*>(bytes.data()) + last_row * 29;
  return {logits, logits + 29};
}

TEST(ModelStep, DecodingGivesTheSameLogitsHoweverThePromptIsCut) {
  // 32 is the whole context, so that the last chunk's padding reaches beyond it.
  const std::vector<float> expected = LogitsAfter(30, 30);
  float largest = 0;
  for (const float logit : expected) largest = std::max(largest, std::abs(logit));
  EXPECT_GT(largest, 0.01f);
  for (const int64_t prefilled : {27, 8, 3, 0}) {
    const std::vector<float> logits = LogitsAfter(30, prefilled);
    for (size_t v = 0; v < expected.size(); ++v) {
      EXPECT_NEAR(logits[v], expected[v], 1e-4f * largest) << prefilled << " prefilled, " << v;
    }
  }
}

}  // namespace
}  // namespace strata::worker

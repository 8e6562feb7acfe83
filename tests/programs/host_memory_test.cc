// Host memory of training with everything on SSD, from the programs of real models: it follows from
// the slabs, not from the model, where ZeRO-Infinity keeps a whole model's gradients, staging
// buffers of its optimizer and a pool of the largest tensor (Rajbhandari et al., SC 2021).
#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/optimizer/adamw.h"
#include "model/parameter_count.h"
#include "program/compose/composer.h"

namespace strata {
namespace {

using program::Tier;

constexpr double kGiB = 1 << 30;

struct Model {
  const char* name;
  model::ModelSpec spec;
  double most_gib;  // that may be managed
  // Of DeepSpeed's formula: elements of the largest sub-group of the optimizer and of the largest
  // tensor.
  double sub_group, largest;
};

model::ModelSpec Llama(int64_t layers, int64_t hidden, int64_t heads, int64_t ffn) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = 8,
          .head_size = 128,
          .ffn = ffn,
          .vocab = 128256,
          .context = 8192};
}

model::ModelSpec Qwen(int64_t layers, int64_t hidden, int64_t heads, int64_t kv_heads,
                      int64_t ffn) {
  model::ModelSpec spec = Llama(layers, hidden, heads, ffn);
  spec.family = model::Family::kQwen2;
  spec.kv_heads = kv_heads;
  spec.vocab = 152064;
  spec.attention_bias = true;
  return spec;
}

std::vector<Model> Models() {
  return {{"Llama-3-8B", Llama(32, 4096, 32, 14336), 4.0, 1.049e9, 525e6},
          {"Qwen2.5-7B", Qwen(28, 3584, 28, 4, 18944), 4.7, 1.029e9, 545e6},
          {"Qwen2.5-14B", Qwen(48, 5120, 40, 8, 13824), 5.5, 1.329e9, 779e6},
          {"Qwen2.5-32B", Qwen(64, 5120, 40, 8, 27648), 7.5, 1.691e9, 779e6},
          {"Llama-3.1-70B", Llama(80, 8192, 64, 28672), 11.4, 1.091e9, 1051e6}};
}

// One rank, bf16 weights with f32 masters and moments, sequences of 2,048 tokens.
absl::StatusOr<program::StagePrograms> OnSsd(const model::ModelSpec& spec) {
  model::EmitOptions options;
  options.type = program::DType::kBF16;
  options.sequence = 2048;
  options.prefill_chunk = 0;
  options.recompute.mode = model::RecomputePlan::Mode::kFull;
  auto graph = model::EmitFamily(spec, options);
  if (!graph.ok()) return graph.status();
  constexpr program::Place kSsd = {.ssd = 1};
  program::Plan plan{.virtual_shards = 1,
                     .global_batch = 4,
                     .places = {kSsd, kSsd, kSsd, kSsd},
                     .update = program::UpdatePolicy::kSpooled,
                     .gradient_clip = 1,
                     .tier = Tier::kDevice};
  auto built =
      program::Compose(*std::move(graph), plan,
                       [](const program::ParameterSet& set, const program::UpdateRange& range) {
                         return model::EmitAdamW(set, {}, model::NumberFormats{}, range);
                       });
  if (!built.ok()) return built.status();
  return std::move((*built)[0]);
}

double Arena(const program::StagePrograms& programs, Tier tier) {
  return static_cast<double>(programs.set.arena(tier));
}

double PowerOfTwo(double bytes) {
  return static_cast<double>(std::bit_ceil(static_cast<uint64_t>(bytes)));
}

// ZeRO-Infinity's, fp16 with f32 accumulation on one rank, without activations and the process:
// pinned buffers are rounded to powers of two; the overflow check makes 1.25 copies of the flat
// gradients.
double ZeroInfinityBytes(double parameters, const Model& model) {
  return PowerOfTwo(4 * parameters) + 5 * parameters + 4 * PowerOfTwo(4 * model.sub_group) +
         PowerOfTwo(2 * 5 * model.largest) + PowerOfTwo(2 * 1e9) + PowerOfTwo(2 * model.sub_group);
}

TEST(HostMemoryTest, WithEverythingOnSsdIsATenthOfZeroInfinitysAtMost) {
  double savings = 0;
  const std::vector<Model> models = Models();
  for (const Model& model : models) {
    const auto programs = OnSsd(model.spec);
    ASSERT_TRUE(programs.ok()) << model.name << ": " << programs.status();
    const double host = Arena(*programs, Tier::kHost);
    const double parameters = model::ParameterCount(model.spec);
    // Weights, master, two moments; gradients until the update.
    EXPECT_GE(Arena(*programs, Tier::kSsd), (2 + 4 + 8 + 4) * parameters) << model.name;
    EXPECT_LE(host, model.most_gib * kGiB) << model.name;
    savings += 1 - host / ZeroInfinityBytes(parameters, model);
    RecordProperty(model.name, std::to_string(host / kGiB));
  }
  EXPECT_GE(savings / static_cast<double>(models.size()), 0.9);
}

TEST(HostMemoryTest, DoesNotGrowWithLayers) {
  std::array<double, 2> host = {};
  for (const bool many : {false, true}) {
    const auto programs = OnSsd(Llama(many ? 80 : 8, 8192, 64, 28672));
    ASSERT_TRUE(programs.ok()) << programs.status();
    host[many] = Arena(*programs, Tier::kHost);
  }
  EXPECT_LT(host[1], 1.05 * host[0]);
}

}  // namespace
}  // namespace strata

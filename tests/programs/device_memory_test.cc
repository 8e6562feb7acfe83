// Device memory of training with weights at home on the host or on SSD and state on the device,
// from the programs of real models: layers come and go, so that one more takes what belongs on the
// device.
#include <cstdint>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/optimizer/adamw.h"
#include "program/compose/composer.h"
#include "program/readers/verify.h"

namespace strata {
namespace {

using program::Tier;

constexpr int64_t kSequence = 2048, kHidden = 4096;

// Of Llama-3-8B's size, but for the layers.
model::ModelSpec Llama(int64_t layers) {
  return {.layers = layers,
          .hidden = kHidden,
          .heads = 32,
          .kv_heads = 8,
          .head_size = 128,
          .ffn = 14336,
          .vocab = 128256,
          .context = 8192};
}

struct Device {
  int64_t bytes = 0;
  int64_t layer_elements = 0;
};

// One rank, bf16 weights with f32 masters and moments; gradients wait where weights are.
Device DeviceOf(int64_t layers, const program::Place& home, int resident) {
  model::EmitOptions options;
  options.type = program::DType::kBF16;
  options.sequence = kSequence;
  options.prefill_chunk = 0;
  options.recompute.mode = model::RecomputePlan::Mode::kFull;
  auto graph = model::EmitFamily(Llama(layers), options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  Device device;
  for (const int set : graph->layers[1].sets) {
    device.layer_elements += graph->sets[set].elements;
  }
  const program::Plan plan{.virtual_shards = 1,
                           .global_batch = 4,
                           .places = {.parameters = home, .gradients = home},
                           .streaming = {.resident = resident},
                           .gradient_clip = 1,
                           .tier = Tier::kDevice};
  const auto built =
      program::Compose(*std::move(graph), plan,
                       [](const program::ParameterSet& set, const program::UpdateRange& range) {
                         return model::EmitAdamW(set, {}, model::NumberFormats{}, range);
                       });
  EXPECT_TRUE(built.ok()) << built.status();
  if (!built.ok()) return {};
  const program::ProgramSet& set = built->front().set;
  const absl::Status status = program::Verify({&set}, "train", {.sizes = set.groups});
  EXPECT_TRUE(status.ok()) << status;
  device.bytes = set.arena(Tier::kDevice);
  return device;
}

TEST(DeviceMemoryTest, GrowsByStateAndWhatALayerKeeps_NotByWeights) {
  constexpr int64_t kMore = 24;
  for (const program::Place& home : {program::Place{.host = 1}, program::Place{.ssd = 1}}) {
    for (const int resident : {1, 2, 4}) {
      const Device few = DeviceOf(8, home, resident), many = DeviceOf(8 + kMore, home, resident);
      const int64_t weights = 2 * few.layer_elements, state = 12 * few.layer_elements;
      // What backwards begin from, and what packing wastes.
      const int64_t kept = kSequence * kHidden * 2, wasted = 2 * weights;
      EXPECT_NEAR(many.bytes - few.bytes, kMore * state, kMore * kept + wasted) << resident;
      RecordProperty(
          std::string(home.ssd > 0 ? "ssd" : "host") + " resident " + std::to_string(resident),
          std::to_string(few.bytes) + " " + std::to_string(many.bytes));
    }
  }
}

}  // namespace
}  // namespace strata

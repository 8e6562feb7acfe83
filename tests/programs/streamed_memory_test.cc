// Device memory of generation with its layers streamed, from the programs of real models: two of n
// layers at a time instead of all, beside what the keys and values of all of them, the tables and
// the work of one layer take anyhow.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "model/families/families.h"
#include "program/compose/decode.h"
#include "program/readers/memory.h"

namespace strata {
namespace {

using program::SlotClass;
using program::Streaming;
using program::Tier;
using program::TierMemory;

constexpr int64_t kContext = 4096, kPrompt = 512;  // tokens; read at once
constexpr int64_t kAlignment = 1 << 20;            // of all slots together

model::ModelSpec Llama(int64_t layers, int64_t hidden, int64_t heads, int64_t kv_heads, int64_t ffn,
                       int64_t vocab) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_size = hidden / heads,
          .ffn = ffn,
          .vocab = vocab,
          .context = kContext};
}

program::LayerGraph GraphOf(const model::ModelSpec& spec) {
  model::EmitOptions options;
  options.type = program::DType::kBF16;
  options.prefill_chunk = kPrompt;
  auto graph = model::EmitFamily(spec, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : program::LayerGraph();
}

TierMemory DeviceOf(const program::LayerGraph& graph, int resident) {
  program::DecodeOptions options{.tier = Tier::kDevice};
  if (resident > 0) options.parameters = {.host = 1}, options.streaming = {.resident = resident};
  const auto built = program::BuildDecode(graph, options);
  EXPECT_TRUE(built.ok()) << built.status();
  if (!built.ok()) return {};
  return program::ReadMemory(built->front().set).tiers[static_cast<int>(Tier::kDevice)];
}

int64_t BytesOf(const TierMemory& memory, SlotClass klass) {
  return memory.peak_by_class[static_cast<int>(klass)];
}

TEST(StreamedMemoryTest, TwoLayersAtATimeTakeThreeTenthsOfTheDeviceAtMost) {
  struct Case {
    const char* name;
    model::ModelSpec spec;
  };
  const Case cases[] = {{"Llama-2-7B", Llama(32, 4096, 32, 32, 11008, 32000)},
                        {"Llama-3-8B", Llama(32, 4096, 32, 8, 14336, 128256)},
                        {"Llama-2-13B", Llama(40, 5120, 40, 40, 13824, 32000)},
                        {"Llama-3.1-70B", Llama(80, 8192, 64, 8, 28672, 128256)}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const program::LayerGraph graph = GraphOf(c.spec);
    const TierMemory resident = DeviceOf(graph, 0), streamed = DeviceOf(graph, 2);
    const double share =
        static_cast<double>(streamed.arena_bytes) / static_cast<double>(resident.arena_bytes);
    EXPECT_LE(share, 0.3);
    RecordProperty(c.name, std::to_string(share));
    // Nothing but parameters differs: of them there are two layers, and one table with its norm.
    for (const SlotClass klass : {SlotClass::kCache, SlotClass::kConstants}) {
      EXPECT_EQ(BytesOf(streamed, klass), BytesOf(resident, klass));
    }
    const int64_t layer = graph.sets[1].bytes(), head = graph.sets.back().bytes();
    EXPECT_LE(BytesOf(streamed, SlotClass::kParameters),
              2 * layer + std::max(graph.sets[0].bytes(), head) + kAlignment);
  }
}

}  // namespace
}  // namespace strata

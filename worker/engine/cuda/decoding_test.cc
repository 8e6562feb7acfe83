// Prefill and decode programs on a CUDA device: logits as on the CPU, and no finding of the
// stand-in's checker.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "device/standin/testing/cuda_test.h"
#include "kernels/number_types.h"
#include "model/initialize.h"
#include "model/rope_table.h"
#include "program/compose/decode.h"
#include "program/ir/mesh.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/cuda/cuda_accelerator.h"
#include "worker/engine/cuda/training_testing.h"

namespace strata::worker {
namespace {

using program::DType;
using program::Scalar;

// A whole chunk of a prefill pass, a part of one, single tokens, and a chunk that reaches beyond
// the context of 20.
constexpr int64_t kPieces[] = {8, 5, 1, 1, 3};
constexpr int kPrefill = 0, kDecode = 1;

class Piece final : public HostOps {
 public:
  void Set(int64_t position, int64_t count) {
    position_ = position;
    count_ = count;
  }
  absl::Status LoadBatch(const BatchRows& rows) override {
    std::fill_n(rows.tokens, rows.samples * rows.sequence, 0);
    std::fill_n(rows.targets, rows.samples * rows.sequence, -1);
    for (int64_t i = 0; i < count_; ++i) rows.tokens[i] = TokenAt(3, position_ + i);
    return absl::OkStatus();
  }
  absl::Status LoadScalars(double* scalars) override {
    std::fill_n(scalars, static_cast<int>(Scalar::kLoss), 0.0);
    scalars[static_cast<int>(Scalar::kPosition)] = static_cast<double>(position_);
    scalars[static_cast<int>(Scalar::kValidTokens)] = static_cast<double>(count_);
    return absl::OkStatus();
  }
  absl::Status Signal(program::Purpose, const std::string&) override { return absl::OkStatus(); }

 private:
  int64_t position_ = 0, count_ = 0;
};

class DecodingTest : public standin::CudaTest {
 protected:
  void ExpectAsOnTheCpu(const model::ModelSpec& spec, DType type, double tolerance) {
    std::vector<double> expected;
    ReadText(spec, type, nullptr, expected);
    double largest = 0;
    for (const double logit : expected) largest = std::max(largest, std::abs(logit));
    ASSERT_GT(largest, 0);
    InEachOrder([&] {
      auto accelerator = CudaAccelerator::Create(0);
      ASSERT_TRUE(accelerator.ok()) << accelerator.status();
      std::vector<double> logits;
      ReadText(spec, type, accelerator->get(), logits);
      ASSERT_EQ(logits.size(), expected.size());
      for (size_t i = 0; i < logits.size(); ++i) {
        ASSERT_NEAR(logits[i], expected[i], tolerance * largest) << i;
      }
    });
  }

 private:
  static void Fill(Engine& engine, const program::DecodeSlots& slots, const model::ModelSpec& spec,
                   const model::EmitOptions& emission, const program::LayerGraph& graph) {
    const auto write = [&](int slot, const auto& values) {
      const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
      const absl::Status status = engine.slots().Write(
          slot, 0, 0, 0, absl::MakeConstSpan(bytes, values.size() * sizeof(values[0])));
      EXPECT_TRUE(status.ok()) << status;
    };
    for (size_t i = 0; i < graph.constants.size(); ++i) {
      if (slots.constants[i] < 0) continue;
      std::vector<std::byte> table(engine.programs().slots[slots.constants[i]].bytes);
      model::FillConstant(spec, graph.constants[i].name,
                          {{.count = model::RopeTableRows(spec, emission)}}, 0,
                          absl::MakeSpan(table));
      write(slots.constants[i], table);
    }
    for (size_t s = 0; s < slots.parameters.size(); ++s) {
      const program::ParameterSet& set = engine.programs().sets[s];
      std::vector<float> values(set.elements);
      model::FillInitial(set, 1, 0, absl::MakeSpan(values));
      WithNumber(set.type, [&]<typename T>(T) {
        std::vector<T> rounded;
        for (const float value : values) rounded.push_back(kernels::FromFloat<T>(value));
        write(slots.parameters[s], rounded);
      });
    }
  }

  // The logits of each piece, one behind the other.
  static void ReadText(const model::ModelSpec& spec, DType type, Accelerator* accelerator,
                       std::vector<double>& all) {
    model::EmitOptions emission = SmallEmission();
    emission.type = type;
    program::DecodeOptions decode;
    if (accelerator != nullptr) {
      emission.backend = ops::BackendKind::kCuda;
      decode.tier = program::Tier::kDevice;
    }
    const auto graph = model::EmitFamily(spec, emission);
    ASSERT_TRUE(graph.ok()) << graph.status();
    auto stages = program::BuildDecode(*graph, decode);
    ASSERT_TRUE(stages.ok()) << stages.status();
    const program::DecodeSlots slots = stages->front().slots;
    Piece host;
    device::ThreadPool pool(1);
    EngineOptions options;
    options.pool = &pool;
    options.host = &host;
    options.accelerator = accelerator;
    const program::Mesh mesh;
    for (const program::Group group : program::kGroups) {
      options.groups[group] = mesh.Members(group, 0);
    }
    auto engine = Engine::Create(std::move(stages->front().set), options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    Fill(**engine, slots, spec, emission, *graph);
    int64_t position = 0;
    for (const int64_t count : kPieces) {
      host.Set(position, count);
      const absl::Status status = (*engine)->RunStep(count == 1 ? kDecode : kPrefill, 0);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_TRUE((*engine)->Drain().ok());
      const std::byte* const logits = (*engine)->SlotBytes(slots.logits, 0, 0).data();
      WithNumber(type, [&]<typename T>(T) {
        for (int64_t i = 0; i < count * spec.vocab; ++i) {
          all.push_back(kernels::ToFloat(reinterpret_cast<const T*>(logits)[i]));
        }
      });
      position += count;
    }
  }
};

model::ModelSpec Llama() {
  model::ModelSpec spec = SmallTraining().spec;
  spec.context = 20;
  return spec;
}

TEST_F(DecodingTest, Llama) { ExpectAsOnTheCpu(Llama(), DType::kF32, 1e-4); }

// On tensor cores.
TEST_F(DecodingTest, LlamaInF16) {
  model::ModelSpec spec = Llama();
  spec.hidden = 32;
  spec.head_size = 8;
  spec.ffn = 48;
  ExpectAsOnTheCpu(spec, DType::kF16, 0.005);
}

// Learned positions; the table is the head's, too.
TEST_F(DecodingTest, Gpt2) {
  model::ModelSpec spec = Llama();
  spec.family = model::Family::kGpt2;
  spec.kv_heads = spec.heads;
  spec.attention_bias = spec.output_bias = spec.feed_forward_bias = true;
  spec.activation = model::Activation::kGeluTanh;
  spec.tied_embeddings = true;
  ExpectAsOnTheCpu(spec, DType::kBF16, 0.03);
}

}  // namespace
}  // namespace strata::worker

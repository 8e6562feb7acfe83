// Adapters against PEFT, beside full and quantised weights: see adapter_parity.py.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "gtest/gtest.h"
#include "kernels/int8.h"
#include "kernels/nf4.h"
#include "model/adapter_names.h"
#include "model/families/families.h"
#include "tests/parity/family_golden.h"
#include "tests/parity/interpreter.h"

namespace strata::parity {
namespace {

using checkpoint::SafetensorsEntry;
using checkpoint::SafetensorsReader;
using program::ElementRun;
using program::ParameterSet;

constexpr double kTolerance = 1e-4;

double Norm(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

// By the end of a golden's name.
std::optional<program::DType> QuantisedAs(const std::string& golden) {
  if (golden.ends_with("_nf4")) return program::DType::kNf4;
  if (golden.ends_with("_nf4f32")) return program::DType::kNf4F32;
  if (golden.ends_with("_int8")) return program::DType::kInt8;
  return std::nullopt;
}

class AdapterGoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  AdapterGoldenTest()
      : quantised_(QuantisedAs(GetParam())), base_(GetParam().substr(0, GetParam().find('_'))) {
    auto reader =
        SafetensorsReader::Open("tests/parity/goldens/adapters/" + GetParam() + ".safetensors");
    EXPECT_TRUE(reader.ok()) << reader.status();
    if (reader.ok()) reader_ = *std::move(reader);
  }

  template <typename T>
  std::vector<T> Read(const std::string& name) const {
    const SafetensorsEntry* const entry = reader_->Find(name);
    EXPECT_NE(entry, nullptr) << name;
    if (entry == nullptr) return {};
    std::vector<T> values(static_cast<size_t>(entry->size_bytes) / sizeof(T));
    EXPECT_TRUE(reader_->ReadBytes(*entry, 0, entry->size_bytes, values.data()).ok());
    return values;
  }

  // Of a logical tensor of an adapter: the rows of a packed one that are its.
  std::vector<float> Of(const char* what, const std::string& name) const {
    const std::string stored = model::StoredAdapter(name);
    std::vector<float> all = Read<float>(std::string(what) + stored);
    if (stored == name) return all;
    const size_t part = name.ends_with(".q.weight") ? 0 : name.ends_with(".k.weight") ? 1 : 2;
    const size_t size = all.size() / 3;  // GPT-2's: as many of each
    return {all.begin() + static_cast<std::ptrdiff_t>(part * size),
            all.begin() + static_cast<std::ptrdiff_t>((part + 1) * size)};
  }

  std::unique_ptr<Interpreter> Make(int64_t prefill_chunk) const {
    model::EmitOptions options;
    options.micro_batch = base_.batch();
    options.sequence = base_.sequence();
    options.prefill_chunk = prefill_chunk;
    options.threads = 2;
    options.lora = {std::stoll(reader_->metadata().at("rank")),
                    std::stod(reader_->metadata().at("alpha")),
                    {"all-linear"},
                    quantised_};
    auto graph = model::EmitFamily(base_.spec(), options);
    EXPECT_TRUE(graph.ok()) << graph.status();
    if (!graph.ok()) return nullptr;
    auto made = std::make_unique<Interpreter>(*std::move(graph), base_.spec(), 2);
    for (size_t s = 0; s < made->graph().sets.size(); ++s) {
      Fill(made->graph().sets[s], made->parameters(static_cast<int>(s)));
    }
    return made;
  }

  void Fill(const ParameterSet& set, absl::Span<float> parameters) const {
    auto* const bytes = reinterpret_cast<std::byte*>(parameters.data());
    if (program::IsNf4(set.type)) return FillNf4(set, bytes);
    if (set.type == program::DType::kInt8) return FillInt8(set, bytes);
    if (!set.trainable) return base_.FillWeights(set, 0, parameters);
    for (const ElementRun& run : ElementRuns(set, 0, 0, set.elements)) {
      const std::vector<float> values =
          Of("adapters/", set.tensors[run.tensor].logical_name(run.part));
      ASSERT_EQ(static_cast<int64_t>(values.size()), run.count);
      std::copy(values.begin(), values.end(), parameters.begin() + run.flat);
    }
  }

  void FillNf4(const ParameterSet& set, std::byte* bytes) const {
    for (const program::TensorSpec& tensor : set.tensors) {
      const std::vector<float> weights = base_.Weight(tensor.name);
      const int64_t count = tensor.elements();
      const int64_t blocks = (count + kernels::kNf4Block - 1) / kernels::kNf4Block;
      const double sum = kernels::SumOfNf4Scales(weights.data(), count);
      const auto offset = static_cast<float>(sum / static_cast<double>(blocks));
      for (int64_t i = 0; i < count; i += kernels::kNf4Unit) {
        const int64_t there = std::min(kernels::kNf4Unit, count - i);
        std::byte* const unit = bytes + program::BytesOf(set.type, tensor.offset + i);
        if (set.type == program::DType::kNf4) {
          kernels::QuantiseNf4Unit(&weights[i], there, offset, unit);
        } else {
          kernels::QuantiseNf4F32Unit(&weights[i], there, unit);
        }
      }
    }
  }

  void FillInt8(const ParameterSet& set, std::byte* bytes) const {
    for (size_t t = 0; t < set.tensors.size(); t += 2) {  // scales follow their matrix
      const program::TensorSpec& tensor = set.tensors[t];
      auto* codes = reinterpret_cast<int8_t*>(bytes + tensor.offset);
      auto* scale = reinterpret_cast<float*>(bytes + set.tensors[t + 1].offset);
      const int64_t columns = tensor.shape[1];
      for (int part = 0; part < tensor.part_count(); ++part) {
        const std::vector<float> weights = base_.Weight(tensor.logical_name(part));
        for (size_t i = 0; i < weights.size(); i += static_cast<size_t>(columns), ++scale) {
          *scale = kernels::Int8Scale(&weights[i], columns);
          kernels::QuantiseInt8(&weights[i], columns, *scale, codes);
          codes += columns;
        }
      }
    }
  }

  absl::Span<const int32_t> Step(const std::vector<int32_t>& all, int64_t step) const {
    const size_t count = static_cast<size_t>(base_.batch() * base_.sequence());
    return absl::MakeConstSpan(all).subspan(static_cast<size_t>(step) * count, count);
  }
  double Train(Interpreter& interpreter, int64_t step) const {
    const absl::Span<const int32_t> targets = Step(base_.targets(), step);
    const auto trained = static_cast<double>(
        std::count_if(targets.begin(), targets.end(), [](int32_t target) { return target >= 0; }));
    interpreter.ZeroGradients();
    const auto sum = interpreter.TrainPass(Step(base_.tokens(), step), targets, 1 / trained, false);
    EXPECT_TRUE(sum.ok()) << sum.status();
    return sum.ok() ? *sum / trained : 0;
  }

  const std::optional<program::DType> quantised_;
  const FamilyGolden base_;
  std::unique_ptr<SafetensorsReader> reader_;
};

TEST_P(AdapterGoldenTest, Gradients_AreThoseOfPeft) {
  const std::unique_ptr<Interpreter> interpreter = Make(0);
  ASSERT_NE(interpreter, nullptr);
  Train(*interpreter, 0);
  const std::vector<ParameterSet>& sets = interpreter->graph().sets;
  for (size_t s = 0; s < sets.size(); ++s) {
    if (!sets[s].trainable) continue;
    const absl::Span<const float> values = interpreter->gradients(static_cast<int>(s));
    for (const ElementRun& run : ElementRuns(sets[s], 0, 0, sets[s].elements)) {
      const std::string& name = sets[s].tensors[run.tensor].logical_name(run.part);
      const std::vector<float> expected = Of("gradients/", name);
      ASSERT_EQ(static_cast<int64_t>(expected.size()), run.count) << name;
      std::vector<double> error;
      for (size_t i = 0; i < expected.size(); ++i) {
        error.push_back(values[run.flat + i] - double{expected[i]});
      }
      const double norm = Norm({expected.begin(), expected.end()});
      EXPECT_LE(Norm(error), kTolerance * norm + 1e-6) << name << " of norm " << norm;
    }
  }
}

TEST_P(AdapterGoldenTest, TenSteps_HaveTheLossesAndNormsOfPeft) {
  const std::unique_ptr<Interpreter> interpreter = Make(0);
  ASSERT_NE(interpreter, nullptr);
  const std::vector<double> losses = Read<double>("losses"), norms = Read<double>("norms");
  for (int64_t step = 0; step < base_.steps(); ++step) {
    const double loss = Train(*interpreter, step);
    EXPECT_NEAR(loss, losses[step], kTolerance * losses[step]) << "step " << step + 1;
    const auto norm = interpreter->Update(base_.adamw(), LearningRate(base_.schedule(), step + 1),
                                          base_.gradient_clip());
    ASSERT_TRUE(norm.ok()) << norm.status();
    EXPECT_NEAR(*norm, norms[step], kTolerance * norms[step]) << "step " << step + 1;
  }
}

TEST_P(AdapterGoldenTest, DecodedLogits_AreThoseOfPeft) {
  const std::unique_ptr<Interpreter> interpreter = Make(base_.sequence());
  ASSERT_NE(interpreter, nullptr);
  interpreter->ClearCaches();
  const std::vector<float> expected = Read<float>("logits");
  double largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(double{value}));
  const auto logits =
      interpreter->Append(Step(base_.tokens(), 0).subspan(0, base_.sequence()), true);
  ASSERT_TRUE(logits.ok()) << logits.status();
  for (size_t i = 0; i < logits->size(); ++i) {
    ASSERT_NEAR((*logits)[i], expected[i], kTolerance * largest) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, AdapterGoldenTest,
                         ::testing::Values("llama", "gpt2", "qwen3", "llama_nf4", "qwen3_nf4",
                                           "llama_nf4f32", "llama_int8", "gpt2_int8"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace strata::parity

// The templates of the Llama family against PyTorch: see make_goldens.py.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "checkpoint/safetensors.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/optimizer/schedule.h"
#include "nlohmann/json.hpp"
#include "tests/parity/interpreter.h"

namespace strata::parity {
namespace {

using checkpoint::SafetensorsEntry;
using checkpoint::SafetensorsReader;

// A stored file of expected values.
class Golden {
 public:
  explicit Golden(const std::string& name) {
    auto reader = SafetensorsReader::Open("tests/parity/goldens/" + name + ".safetensors");
    EXPECT_TRUE(reader.ok()) << reader.status();
    reader_ = *std::move(reader);
    configuration_ = nlohmann::json::parse(reader_->metadata().at("configuration"));
  }

  template <typename T>
  std::vector<T> Read(const std::string& name) const {
    const SafetensorsEntry* entry = reader_->Find(name);
    if (entry == nullptr) {
      ADD_FAILURE() << name << " is missing";
      return {};
    }
    std::vector<T> values(entry->size_bytes / sizeof(T));
    const absl::Status status = reader_->ReadBytes(*entry, 0, entry->size_bytes, values.data());
    EXPECT_TRUE(status.ok()) << status;
    return values;
  }

  template <typename T>
  T Get(const char* key) const {
    return configuration_.at(key).get<T>();
  }

  model::ModelSpec Spec() const {
    model::ModelSpec spec;
    spec.layers = Get<int64_t>("layers");
    spec.hidden = Get<int64_t>("hidden");
    spec.heads = Get<int64_t>("heads");
    spec.kv_heads = Get<int64_t>("kv_heads");
    spec.head_size = Get<int64_t>("head_size");
    spec.ffn = Get<int64_t>("ffn");
    spec.vocab = Get<int64_t>("vocab");
    spec.context = Get<int64_t>("sequence");
    spec.tied_embeddings = Get<int>("tied") != 0;
    spec.rope_theta = Get<double>("rope_theta");
    spec.norm_epsilon = Get<double>("norm_epsilon");
    return spec;
  }

 private:
  std::unique_ptr<SafetensorsReader> reader_;
  nlohmann::json configuration_;
};

// Calls use(name, first element, elements) for every tensor that users see in the set.
template <typename Use>
void ForEachTensor(const program::ParameterSet& set, const Use& use) {
  for (const program::TensorSpec& tensor : set.tensors) {
    if (tensor.parts.empty()) {
      use(tensor.name, tensor.offset, tensor.elements());
      continue;
    }
    int64_t next = tensor.offset;
    for (const program::TensorSpec::Part& part : tensor.parts) {
      const int64_t elements = part.rows * (tensor.elements() / tensor.shape[0]);
      use(part.name, next, elements);
      next += elements;
    }
  }
}

struct Variant {
  int64_t micro_batch = 0;      // 0: the whole batch
  int64_t head_chunk_rows = 0;  // 0: the default
  bool split = false;
};

class ParityTest : public testing::TestWithParam<const char*> {
 protected:
  ParityTest() : golden_(GetParam()), tokens_(golden_.Read<int32_t>("tokens")) {
    targets_ = golden_.Read<int32_t>("targets");
    batch_ = golden_.Get<int64_t>("batch");
    sequence_ = golden_.Get<int64_t>("sequence");
  }

  std::unique_ptr<Interpreter> Make(const Variant& variant) {
    constexpr int kThreads = 2;
    model::EmitOptions options;
    options.micro_batch = variant.micro_batch == 0 ? batch_ : variant.micro_batch;
    options.sequence = sequence_;
    options.head_chunk_rows = variant.head_chunk_rows;
    options.prefill_chunk = 8;
    options.split_backward = variant.split;
    options.threads = kThreads;
    const model::ModelSpec spec = golden_.Spec();
    auto graph = model::EmitFamily(spec, options);
    EXPECT_TRUE(graph.ok()) << graph.status();
    auto made = std::make_unique<Interpreter>(*std::move(graph), spec, kThreads);
    for (size_t i = 0; i < made->graph().sets.size(); ++i) {
      ForEachTensor(made->graph().sets[i],
                    [&](const std::string& name, int64_t first, int64_t elements) {
                      const std::vector<float> weights = golden_.Read<float>("weights/" + name);
                      ASSERT_EQ(weights.size(), static_cast<size_t>(elements)) << name;
                      std::copy(weights.begin(), weights.end(),
                                made->parameters(static_cast<int>(i)).begin() + first);
                    });
    }
    return made;
  }

  // Gradients of step `step` (from 0) over micro-batches; returns the mean loss.
  double Gradients(Interpreter& interpreter, const Variant& variant, int step) {
    const int64_t pass = interpreter.graph().tokens();
    const int64_t total = batch_ * sequence_;
    const int32_t* tokens = &tokens_[step * total];
    const int32_t* targets = &targets_[step * total];
    const double trained = static_cast<double>(
        std::count_if(targets, targets + total, [](int32_t target) { return target >= 0; }));
    interpreter.ZeroGradients();
    double loss = 0;
    for (int64_t first = 0; first < total; first += pass) {
      const auto sum =
          interpreter.TrainPass(absl::MakeSpan(tokens + first, pass),
                                absl::MakeSpan(targets + first, pass), 1 / trained, variant.split);
      EXPECT_TRUE(sum.ok()) << sum.status();
      if (!sum.ok()) return 0;
      loss += *sum;
    }
    return loss / trained;
  }

  // Every tensor of `actual` (per set) within `tolerance` of the norm of the golden `kind`/name.
  template <typename Actual>
  void ExpectClose(const Interpreter& interpreter, const std::string& kind, double tolerance,
                   const Actual& actual) {
    for (size_t i = 0; i < interpreter.graph().sets.size(); ++i) {
      const absl::Span<const float> values = actual(static_cast<int>(i));
      ForEachTensor(interpreter.graph().sets[i],
                    [&](const std::string& name, int64_t first, int64_t elements) {
                      const std::vector<float> expected = golden_.Read<float>(kind + "/" + name);
                      ASSERT_EQ(expected.size(), static_cast<size_t>(elements)) << name;
                      double error = 0, norm = 0;
                      for (int64_t j = 0; j < elements; ++j) {
                        error += std::pow(static_cast<double>(values[first + j]) - expected[j], 2);
                        norm += std::pow(static_cast<double>(expected[j]), 2);
                      }
                      EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(norm)) << name;
                      worst_ = std::max(worst_, std::sqrt(error / norm));
                    });
    }
    RecordProperty(kind + "_worst", absl::StrCat(worst_));
  }

  void ExpectGradients(const Variant& variant) {
    const std::unique_ptr<Interpreter> interpreter = Make(variant);
    const double loss = Gradients(*interpreter, variant, 0);
    const double expected = golden_.Read<double>("losses")[0];
    EXPECT_NEAR(loss, expected, 1e-5 * expected);
    ExpectClose(*interpreter, "gradients", 1e-4,
                [&](int set) { return interpreter->gradients(set); });
  }

  Golden golden_;
  std::vector<int32_t> tokens_, targets_;  // [steps, B, T]
  int64_t batch_ = 0, sequence_ = 0;
  double worst_ = 0;
};

TEST_P(ParityTest, Gradients_AreThoseOfPyTorch) { ExpectGradients({}); }

TEST_P(ParityTest, GradientsOverMicroBatches_AreThoseOfPyTorch) {
  ExpectGradients({.micro_batch = 1});
}

TEST_P(ParityTest, GradientsWithSmallHeadChunks_AreThoseOfPyTorch) {
  ExpectGradients({.head_chunk_rows = 16});
  ExpectGradients({.head_chunk_rows = 1});
}

TEST_P(ParityTest, SplitBackward_HasTheBitsOfTheWhole) {
  const std::unique_ptr<Interpreter> whole = Make({});
  const std::unique_ptr<Interpreter> split = Make({.split = true});
  EXPECT_EQ(Gradients(*whole, {}, 0), Gradients(*split, {.split = true}, 0));
  for (size_t i = 0; i < whole->graph().sets.size(); ++i) {
    const int set = static_cast<int>(i);
    EXPECT_TRUE(std::equal(whole->gradients(set).begin(), whole->gradients(set).end(),
                           split->gradients(set).begin()))
        << whole->graph().sets[i].name;
  }
}

TEST_P(ParityTest, EvaluateLoss_IsTheTrainingLoss) {
  const std::unique_ptr<Interpreter> interpreter = Make({.head_chunk_rows = 16});
  const int64_t total = batch_ * sequence_;
  const auto sum = interpreter->EvaluatePass(absl::MakeSpan(tokens_.data(), total),
                                             absl::MakeSpan(targets_.data(), total));
  ASSERT_TRUE(sum.ok()) << sum.status();
  const double trained = static_cast<double>(std::count_if(
      targets_.begin(), targets_.begin() + total, [](int32_t target) { return target >= 0; }));
  const double expected = golden_.Read<double>("losses")[0];
  EXPECT_NEAR(*sum / trained, expected, 1e-5 * expected);
}

TEST_P(ParityTest, TenSteps_HaveTheLossesNormsAndWeightsOfPyTorch) {
  const std::unique_ptr<Interpreter> interpreter = Make({});
  model::AdamWSpec adamw;
  adamw.beta1 = golden_.Get<double>("beta1");
  adamw.beta2 = golden_.Get<double>("beta2");
  adamw.epsilon = golden_.Get<double>("epsilon");
  adamw.weight_decay = golden_.Get<double>("weight_decay");
  model::ScheduleSpec schedule;
  schedule.peak = golden_.Get<double>("learning_rate");
  schedule.steps = golden_.Get<int64_t>("steps");
  schedule.warmup_steps = golden_.Get<int64_t>("warmup_steps");
  schedule.final_fraction = golden_.Get<double>("final_fraction");
  const std::vector<double> losses = golden_.Read<double>("losses");
  const std::vector<double> norms = golden_.Read<double>("norms");
  for (int step = 0; step < schedule.steps; ++step) {
    const double loss = Gradients(*interpreter, {}, step);
    EXPECT_NEAR(loss, losses[step], 1e-5 * losses[step]) << "step " << step + 1;
    const auto norm = interpreter->Update(adamw, LearningRate(schedule, step + 1),
                                          golden_.Get<double>("gradient_clip"));
    ASSERT_TRUE(norm.ok()) << norm.status();
    EXPECT_NEAR(*norm, norms[step], 1e-4 * norms[step]) << "step " << step + 1;
  }
  ExpectClose(*interpreter, "final", 1e-4, [&](int set) { return interpreter->parameters(set); });
}

// The first sequences by chunks of 8 (the last one not full), then the rest row by row.
TEST_P(ParityTest, DecodedLogits_AreThoseOfPyTorch) {
  const std::unique_ptr<Interpreter> interpreter = Make({});
  const std::vector<float> expected = golden_.Read<float>("logits");
  double largest = 0;
  for (const float value : expected)
    largest = std::max(largest, static_cast<double>(std::abs(value)));
  const int64_t prefilled = sequence_ - 4;
  size_t compared = 0;
  for (int64_t sample = 0; sample < batch_; ++sample) {
    interpreter->ClearCaches();
    for (int64_t at = 0; at < sequence_;) {
      const bool prefill = at < prefilled;
      const int64_t rows = prefill ? std::min<int64_t>(8, prefilled - at) : 1;
      const auto logits =
          interpreter->Append(absl::MakeSpan(&tokens_[sample * sequence_ + at], rows), prefill);
      ASSERT_TRUE(logits.ok()) << logits.status();
      for (const float value : *logits) {
        ASSERT_NEAR(value, expected[compared], 1e-4 * largest) << "row " << at << " " << rows;
        ++compared;
      }
      at += rows;
    }
  }
  EXPECT_EQ(compared, expected.size());
}

INSTANTIATE_TEST_SUITE_P(Goldens, ParityTest, testing::Values("untied", "grouped_tied"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace strata::parity

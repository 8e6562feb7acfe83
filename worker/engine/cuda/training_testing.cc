#include "worker/engine/cuda/training_testing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "gtest/gtest.h"
#include "kernels/int8.h"
#include "kernels/nf4.h"
#include "kernels/number_types.h"
#include "model/initialize.h"
#include "model/optimizer/adamw.h"
#include "model/rope_table.h"
#include "program/compose/composer.h"
#include "program/ir/mesh.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/communication_binding.h"

namespace strata::worker {
namespace {

using program::DType;
using program::Scalar;

template <typename T>
absl::Span<std::byte> BytesOf(std::vector<T>& values) {
  return absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T));
}

// A matrix's rows, whose scales stand beside it.
void QuantiseRows(const program::TensorSpec& matrix, const program::TensorSpec& scales,
                  const std::vector<float>& values, std::vector<std::byte>& bytes) {
  const int64_t columns = matrix.shape[1];
  for (int64_t row = 0; row < matrix.shape[0]; ++row) {
    const int64_t at = matrix.offset + row * columns;
    const float scale = kernels::Int8Scale(&values[at], columns);
    kernels::QuantiseInt8(&values[at], columns, scale, reinterpret_cast<int8_t*>(&bytes[at]));
    std::memcpy(&bytes[scales.offset + row * 4], &scale, sizeof(scale));
  }
}

// A tensor's weights in NF4, with the mean of its own scales.
void QuantiseNf4(const program::TensorSpec& tensor, bool f32_scales,
                 const std::vector<float>& values, std::vector<std::byte>& bytes) {
  const int64_t count = tensor.elements(), blocks = (count + 63) / kernels::kNf4Block;
  const double sum = kernels::SumOfNf4Scales(&values[tensor.offset], count);
  for (int64_t at = 0; at < count; at += kernels::kNf4Unit) {
    const int64_t unit = (tensor.offset + at) / kernels::kNf4Unit;
    const int64_t here = std::min(kernels::kNf4Unit, count - at);
    const float* const from = &values[tensor.offset + at];
    if (f32_scales) {
      kernels::QuantiseNf4F32Unit(from, here, &bytes[unit * kernels::kNf4F32UnitBytes]);
    } else {
      const auto mean = static_cast<float>(sum / static_cast<double>(blocks));
      kernels::QuantiseNf4Unit(from, here, mean, &bytes[unit * kernels::kNf4UnitBytes]);
    }
  }
}

// Initial values as a set of frozen weights keeps them.
std::vector<std::byte> Quantised(const program::ParameterSet& set) {
  std::vector<float> values(set.elements);
  model::FillInitial(set, 1, 0, absl::MakeSpan(values));
  std::vector<std::byte> bytes(set.bytes());
  for (size_t t = 0; t < set.tensors.size(); ++t) {
    if (program::IsNf4(set.type)) {
      QuantiseNf4(set.tensors[t], set.type == DType::kNf4F32, values, bytes);
    } else if (!program::IsRowScales(set.tensors[t].name)) {
      QuantiseRows(set.tensors[t], set.tensors[t + 1], values, bytes);
    }
  }
  return bytes;
}

// Of whole steps between which nothing runs.
class Slots {
 public:
  Slots(Engine* engine, const program::StateSlots& slots) : engine_(engine), slots_(slots) {}

  void FillAll(const Training& training, const program::LayerGraph& graph) {
    for (size_t i = 0; i < graph.constants.size(); ++i) {
      if (slots_.constants[i] < 0) continue;
      std::vector<std::byte> table(engine_->programs().slots[slots_.constants[i]].bytes);
      model::FillConstant(training.spec, graph.constants[i].name,
                          {{.count = model::RopeTableRows(training.spec, training.emission)}}, 0,
                          absl::MakeSpan(table));
      Write(slots_.constants[i], absl::MakeSpan(table));
    }
    for (size_t s = 0; s < slots_.sets.size(); ++s) FillSet(static_cast<int>(s));
  }

  std::vector<double> Parameters(int64_t applied) {
    std::vector<double> all;
    for (size_t s = 0; s < slots_.sets.size(); ++s) {
      const int slot = slots_.sets[s].parameters;
      const DType type = engine_->programs().sets[s].type;
      if (program::IsQuantised(type)) continue;
      std::vector<std::byte> bytes(engine_->programs().slots[slot].bytes);
      const absl::Status status = engine_->slots().Read(slot, 0, applied, 0, absl::MakeSpan(bytes));
      EXPECT_TRUE(status.ok()) << status;
      WithNumber(type, [&]<typename T>(T) {
        const auto* values = reinterpret_cast<const T*>(bytes.data());
        for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
          all.push_back(kernels::ToFloat(values[i]));
        }
      });
    }
    return all;
  }

 private:
  void FillSet(int s) {
    const program::StateSlots::Set& set = slots_.sets[s];
    const program::ParameterSet& of = engine_->programs().sets[s];
    ASSERT_EQ(set.parameter_parts, 1);
    if (program::IsQuantised(of.type)) {
      std::vector<std::byte> bytes = Quantised(of);
      return Write(set.parameters, absl::MakeSpan(bytes));
    }
    std::vector<float> values(of.bytes() / program::SizeOf(of.type));
    model::FillInitial(of, 1, 0, absl::MakeSpan(values));
    if (of.type == DType::kF32) return Write(set.parameters, BytesOf(values));
    WithNumber(of.type, [&]<typename T>(T) {
      std::vector<T> rounded;
      for (const float value : values) rounded.push_back(kernels::FromFloat<T>(value));
      Write(set.parameters, BytesOf(rounded));
    });
    if (set.states.empty()) return;
    for (const program::StateSlots::Range& range : set.ranges) {
      std::vector<float> master(values.begin() + range.first,
                                values.begin() + range.first + range.count);
      Write(range.slots[0], BytesOf(master));
    }
  }

  void Write(int slot, absl::Span<std::byte> bytes) {
    const absl::Status status = engine_->slots().Write(slot, 0, 0, 0, bytes);
    EXPECT_TRUE(status.ok()) << status;
  }

  Engine* const engine_;
  const program::StateSlots slots_;
};

}  // namespace

Training SmallTraining() {
  Training training{.spec = SmallModel(), .emission = SmallEmission()};
  training.spec.tied_embeddings = false;
  training.emission.micro_batch = kSmallBatch;
  training.emission.prefill_chunk = 0;
  training.plan.virtual_shards = 1;
  training.plan.global_batch = kSmallBatch;
  training.plan.evaluate_batch = kSmallBatch;
  training.plan.gradient_clip = 1;
  training.plan.scratch = CollectiveScratchBytes;
  return training;
}

void Train(const Training& training, Accelerator* accelerator, int rank,
           collectives::Communicator* communicator, TrainingOutcome& outcome,
           IssueObserver* observer) {
  model::EmitOptions emission = training.emission;
  program::Plan plan = training.plan;
  plan.gradient = training.formats.gradient;
  plan.master = training.formats.master;
  plan.moments = model::AdamWMoments(training.formats);
  plan.loss_scaling = emission.type == DType::kF16;
  if (accelerator != nullptr) {
    emission.backend = ops::BackendKind::kCuda;
    plan.tier = program::Tier::kDevice;
  } else {
    plan.places = {};  // kernels on the CPU have all in one tier
  }
  auto graph = model::EmitFamily(training.spec, emission);
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto decision = program::Decide(*std::move(graph), plan);
  ASSERT_TRUE(decision.ok()) << decision.status();
  auto built = program::ComposeStage(
      *decision, 0, [&](const program::ParameterSet& set, const program::UpdateRange& range) {
        return model::EmitAdamW(set, {}, training.formats, range);
      });
  ASSERT_TRUE(built.ok()) << built.status();
  const program::Mesh mesh{.sizes = plan.groups};
  TextHost host(mesh.data(rank), decision->leaves);
  host.applied = 0;
  host.overflow_steps = training.overflow_steps;
  host.rate_growth = training.rate_growth;
  device::ThreadPool pool(1);
  EngineOptions options;
  options.pool = &pool;
  options.host = &host;
  options.accelerator = accelerator;
  options.communicator = communicator;
  options.observer = observer;
  for (const program::Group group : program::kGroups) {
    options.groups[group] = mesh.Members(group, rank);
  }
  const program::StateSlots state = built->slots;
  if (training.look_at) training.look_at(built->set);
  auto engine = Engine::Create(std::move(built->set), options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  Slots slots(engine->get(), state);
  slots.FillAll(training, decision->graph);
  model::LossScale loss_scale = training.loss_scale;
  for (int step = 0; step < training.steps; ++step, ++host.step) {
    if (plan.loss_scaling) outcome.loss_scales.push_back(host.loss_scale = loss_scale.value);
    const absl::Status status = (*engine)->RunStep(0, host.applied);
    ASSERT_TRUE(status.ok()) << status;
    const bool applied = (*engine)->scalar(Scalar::kApply) != 0;
    loss_scale.Update(applied);
    if (!applied) continue;
    ++host.applied;
    outcome.losses.push_back((*engine)->scalar(Scalar::kLoss));
    outcome.norms.push_back((*engine)->scalar(Scalar::kGradientNorm));
  }
  host.overflow_steps.clear();
  if (plan.evaluate_batch > 0) {
    const absl::Status status = (*engine)->RunStep(1, host.applied);
    ASSERT_TRUE(status.ok()) << status;
    outcome.validation = (*engine)->scalar(Scalar::kLoss);
  }
  const absl::Status status = (*engine)->Drain();
  ASSERT_TRUE(status.ok()) << status;
  outcome.parameters = slots.Parameters(host.applied);
  outcome.programs = (*engine)->programs();
}

void ExpectNear(const TrainingOutcome& outcome, const TrainingOutcome& expected, double tolerance) {
  ASSERT_FALSE(expected.losses.empty());
  EXPECT_EQ(outcome.loss_scales, expected.loss_scales);
  ASSERT_EQ(outcome.losses.size(), expected.losses.size());
  for (size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(outcome.losses[step], expected.losses[step], tolerance * expected.losses[step])
        << step;
    EXPECT_NEAR(outcome.norms[step], expected.norms[step], 5 * tolerance * expected.norms[step])
        << step;
  }
  EXPECT_NEAR(outcome.validation, expected.validation, tolerance * expected.validation);
  ASSERT_EQ(outcome.parameters.size(), expected.parameters.size());
  double apart = 0, size = 0;
  for (size_t i = 0; i < expected.parameters.size(); ++i) {
    apart += std::pow(outcome.parameters[i] - expected.parameters[i], 2);
    size += std::pow(expected.parameters[i], 2);
  }
  EXPECT_LT(std::sqrt(apart), 10 * tolerance * std::sqrt(size));
}

}  // namespace strata::worker

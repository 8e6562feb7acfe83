#include "worker/trainer/calibration/reference_steps.h"

#include "model/family_defaults.h"
#include "model/optimizer/adamw.h"
#include "worker/engine/communication_binding.h"

namespace strata::worker {
namespace {

struct Shape {
  int64_t hidden, heads, kv_heads, ffn, vocab, sequence, micro_batch;
  int64_t layers = 1;
  model::Family family = model::Family::kLlama;
};

// Products of 64 to 2048 rows, and of widths from 128 to 4096.
constexpr Shape kShapes[] = {{128, 4, 4, 384, 256, 64, 1},      {128, 4, 2, 512, 1024, 128, 4},
                             {256, 4, 4, 768, 4096, 128, 1},    {256, 8, 4, 1024, 256, 256, 4},
                             {384, 6, 6, 1024, 2048, 256, 2},   {512, 8, 8, 1536, 8192, 64, 1},
                             {512, 8, 8, 1408, 4096, 256, 1},   {512, 8, 4, 2048, 4096, 512, 2},
                             {768, 12, 12, 2048, 8192, 64, 2},  {1024, 16, 8, 2816, 8192, 128, 1},
                             {1024, 16, 16, 4096, 4096, 512, 1}};
// Sums, norms and updates over more than shared caches hold, leaves of a tree combined.
constexpr Shape kDeep = {576, 9, 9, 1536, 6144, 128, 1, 6};
constexpr Shape kBesideMessages = {512, 8, 8, 1536, 4096, 128, 1};
// For the layouts of two ranks.
constexpr Shape kShared[] = {{256, 8, 4, 768, 4096, 128, 2}, {512, 8, 8, 1536, 8192, 256, 2}};
constexpr Shape kQuick = {64, 4, 2, 128, 256, 64, 1};

// Of devices: widths and rows of models that are trained on them, and what starts cost.
constexpr Shape kSmallOnDevice = {256, 4, 4, 1024, 4096, 256, 2};
constexpr Shape kGpt2 = {768, 12, 12, 3072, 50304, 1024, 4, 1, model::Family::kGpt2};
constexpr Shape kGpt2ManyRows = {768, 12, 12, 3072, 50304, 1024, 16, 1, model::Family::kGpt2};
constexpr Shape kLongOnDevice = {1536, 12, 2, 8960, 32000, 4096, 1};
constexpr Shape kMiddleOnDevice = {2048, 16, 8, 5632, 32000, 2048, 4};
constexpr Shape kWideOnDevice = {4096, 32, 8, 14336, 32000, 1024, 1};
constexpr Shape kWideManyRows = {4096, 32, 8, 14336, 32000, 4096, 1};
constexpr Shape kSharedOnDevice[] = {{1024, 16, 8, 2816, 16384, 1024, 2},
                                     {2048, 16, 8, 5632, 32000, 2048, 2}};
constexpr Shape kQuickOnDevice = {32, 4, 2, 64, 256, 16, 1};
constexpr Shape kQuickGpt2 = {32, 4, 4, 64, 256, 16, 1, 1, model::Family::kGpt2};

constexpr int kRepetitions = 3, kQuickRepetitions = 2, kRepetitionsOnDevice = 5;
constexpr int64_t kFewRows = 256;

TrainingSpec SpecOf(const Shape& shape, int threads, const program::GroupSizes& groups = {}) {
  TrainingSpec spec;
  spec.model = model::DefaultsOf(shape.family);
  spec.model.layers = groups.pipeline > 1 ? 2 : shape.layers;
  spec.model.hidden = shape.hidden;
  spec.model.heads = shape.heads;
  spec.model.kv_heads = shape.kv_heads;
  spec.model.head_size = shape.hidden / shape.heads;
  spec.model.ffn = shape.ffn;
  spec.model.vocab = shape.vocab;
  spec.model.context = shape.sequence;
  spec.emit = {.micro_batch = shape.micro_batch, .sequence = shape.sequence, .prefill_chunk = 0};
  spec.emit.threads = threads;
  spec.emit.tensor_degree = groups.tensor;
  spec.emit.context_ranks = groups.context;
  spec.emit.split_backward = groups.pipeline > 1;
  spec.plan.groups = groups;
  // The second pass adds to the gradients of the first; once the rows are many that costs little.
  const bool twice = shape.sequence * shape.micro_batch <= kFewRows || groups.pipeline > 1;
  spec.plan.global_batch = shape.micro_batch * (twice ? 2 : 1);
  spec.plan.gradient_clip = 1;
  spec.plan.scratch = CollectiveScratchBytes;
  if (groups.pipeline > 1) spec.plan.schedule = program::ScheduleKind::kZeroBubble;
  spec.threads = threads;
  return spec;
}

struct Numbers {
  program::DType type;
  model::NumberFormats formats = {};
};
constexpr Numbers kF32 = {program::DType::kF32}, kBf16 = {program::DType::kBF16};
constexpr Numbers kFewestBits = {program::DType::kBF16,
                                 {.gradient = program::DType::kBF16,
                                  .master = program::StateFormat::kRemainder,
                                  .state = model::NumberFormats::State::k8Bit}};

TrainingSpec SpecOnDevice(const Shape& shape, const Numbers& numbers,
                          const program::GroupSizes& groups = {}) {
  TrainingSpec spec = SpecOf(shape, /*threads=*/1, groups);
  spec.emit.backend = ops::BackendKind::kCuda;
  spec.emit.type = numbers.type;
  spec.emit.set_alignment = numbers.formats.set_alignment();
  spec.formats = numbers.formats;
  spec.plan.tier = program::Tier::kDevice;
  spec.plan.gradient = numbers.formats.gradient;
  spec.plan.master = numbers.formats.master;
  spec.plan.moments = model::AdamWMoments(numbers.formats);
  return spec;
}

constexpr program::GroupSizes kLayoutsOfTwo[] = {{.tensor = 2}, {.context = 2}, {.pipeline = 2}};

}  // namespace

std::vector<ReferenceStep> StepsOfOneRank(int threads, bool quick) {
  if (quick) return {{SpecOf(kQuick, threads), kQuickRepetitions}};
  std::vector<ReferenceStep> steps;
  for (const Shape& shape : kShapes) steps.push_back({SpecOf(shape, threads), kRepetitions});
  steps.push_back({SpecOf(kDeep, threads), kRepetitions});
  steps.back().spec.plan.virtual_shards = 2;
  return steps;
}

TrainingSpec StepBesideMessages(int threads, bool quick) {
  return SpecOf(quick ? kQuick : kBesideMessages, threads);
}

std::vector<ReferenceStep> StepsOfTwoRanks(int threads, bool quick) {
  std::vector<ReferenceStep> steps;
  for (const program::GroupSizes& groups : kLayoutsOfTwo) {
    if (quick) {
      steps.push_back({SpecOf(kQuick, threads, groups), kQuickRepetitions});
      continue;
    }
    for (const Shape& shape : kShared) {
      steps.push_back({SpecOf(shape, threads, groups), kRepetitions});
    }
  }
  return steps;
}

std::vector<ReferenceStep> StepsOfDevice(bool quick) {
  if (quick) {
    return {{SpecOnDevice(kQuickOnDevice, kF32), kQuickRepetitions},
            {SpecOnDevice(kQuickOnDevice, kBf16), kQuickRepetitions},
            {SpecOnDevice(kQuickGpt2, kFewestBits), kQuickRepetitions}};
  }
  std::vector<ReferenceStep> steps;
  const auto add = [&](const Shape& shape, const Numbers& numbers) {
    steps.push_back({SpecOnDevice(shape, numbers), kRepetitionsOnDevice});
  };
  for (const Shape& shape : {kSmallOnDevice, kGpt2, kMiddleOnDevice, kWideOnDevice}) {
    add(shape, kF32);
  }
  for (const Shape& shape : {kSmallOnDevice, kGpt2, kGpt2ManyRows, kLongOnDevice, kMiddleOnDevice,
                             kWideOnDevice, kWideManyRows}) {
    add(shape, kBf16);
  }
  for (const Shape& shape : {kGpt2, kWideOnDevice}) add(shape, kFewestBits);
  return steps;
}

std::vector<ReferenceStep> StepsOfTwoDevices(bool quick) {
  std::vector<ReferenceStep> steps;
  for (const program::GroupSizes& groups : kLayoutsOfTwo) {
    if (quick) {
      steps.push_back({SpecOnDevice(kQuickOnDevice, kBf16, groups), kQuickRepetitions});
      continue;
    }
    for (const Shape& shape : kSharedOnDevice) {
      steps.push_back({SpecOnDevice(shape, kBf16, groups), kRepetitionsOnDevice});
    }
  }
  return steps;
}

}  // namespace strata::worker

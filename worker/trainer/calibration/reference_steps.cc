#include "worker/trainer/calibration/reference_steps.h"

#include "worker/engine/communication_binding.h"

namespace strata::worker {
namespace {

struct Shape {
  int64_t hidden, heads, kv_heads, ffn, vocab, sequence, micro_batch;
  int64_t layers = 1;
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

constexpr int kRepetitions = 3, kQuickRepetitions = 2;
constexpr int64_t kFewRows = 256;

TrainingSpec SpecOf(const Shape& shape, int threads, const program::GroupSizes& groups = {}) {
  TrainingSpec spec;
  spec.model = {.layers = groups.pipeline > 1 ? 2 : shape.layers,
                .hidden = shape.hidden,
                .heads = shape.heads,
                .kv_heads = shape.kv_heads,
                .head_size = shape.hidden / shape.heads,
                .ffn = shape.ffn,
                .vocab = shape.vocab,
                .context = shape.sequence,
                .tied_embeddings = false};
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
  for (const program::GroupSizes& groups :
       {program::GroupSizes{.tensor = 2}, program::GroupSizes{.context = 2},
        program::GroupSizes{.pipeline = 2}}) {
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

}  // namespace strata::worker

// A Llama-style model over tensor 4 × pipeline 4: interleaved with zero-bubble, sequence parallel
// with chunked gathers, tied embeddings on the first and the last stage. Goldens:
// STRATA_UPDATE_GOLDENS=FOLDER writes what the test found.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/optimizer/adamw.h"
#include "program/compose/composer.h"
#include "program/readers/dump.h"
#include "program/readers/memory.h"
#include "program/readers/timeline.h"
#include "program/readers/verify.h"
#include "program/testing/golden.h"
#include "program/testing/toy_graph.h"

namespace strata {
namespace {

using program::ProgramSet;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int kTensor = 4, kStages = 4;

struct Shape {
  int64_t layers = 8;
  int64_t chunks = 4;  // of gathers and reductions in the tensor group
  int micro_batches = 8;
  program::ScheduleKind kind = program::ScheduleKind::kZeroBubble;
};

model::ModelSpec Spec(const Shape& shape) {
  model::ModelSpec spec;
  spec.layers = shape.layers;
  spec.hidden = 32;
  spec.heads = 8;
  spec.kv_heads = 4;
  spec.head_size = 4;
  spec.ffn = 96;
  spec.vocab = 256;
  spec.context = 64;
  spec.tied_embeddings = true;
  return spec;
}

std::vector<ProgramSet> Build(const Shape& shape) {
  const auto graph = model::EmitFamily(
      Spec(shape), {.sequence = 64,
                    .tensor_degree = kTensor,
                    .tensor_chunks = shape.chunks,
                    .split_backward = shape.kind == program::ScheduleKind::kZeroBubble});
  EXPECT_TRUE(graph.ok()) << graph.status();
  program::Plan plan;
  plan.groups.tensor = kTensor;
  plan.groups.pipeline = kStages;
  plan.schedule = shape.kind;
  plan.virtual_stages = shape.kind == program::ScheduleKind::k1F1B ? 1 : 2;
  plan.global_batch = shape.micro_batches;
  plan.gradient_clip = 1;
  plan.scratch = program::ToyScratch;
  auto built = program::Compose(
      *graph, plan, [](const program::ParameterSet& set, const program::UpdateRange& range) {
        return model::EmitAdamW(set, {}, range);
      });
  EXPECT_TRUE(built.ok()) << built.status();
  std::vector<ProgramSet> sets;
  for (program::StagePrograms& stage : *built) sets.push_back(std::move(stage.set));
  return sets;
}

std::vector<const ProgramSet*> Pointers(const std::vector<ProgramSet>& sets) {
  std::vector<const ProgramSet*> pointers;
  for (const ProgramSet& set : sets) pointers.push_back(&set);
  return pointers;
}

program::Mesh MeshOf(const std::vector<ProgramSet>& sets) { return {.sizes = sets.front().groups}; }

absl::Status VerifyAll(const std::vector<ProgramSet>& sets) {
  return program::Verify(Pointers(sets), "train", MeshOf(sets));
}

// Times point into `sets`.
program::Timeline Predict(const std::vector<ProgramSet>& sets) {
  // Links at which the tensor group's collectives take about a quarter of the products' time;
  // memory that costs nothing, since at these sizes everything but products would be memory.
  const program::RateCostModel costs({.flops_per_second = 1e9,
                                      .memory_bytes_per_second = 1e15,
                                      .link_bytes_per_second = 2e8,
                                      .link_latency_seconds = 0});
  auto timeline = program::PredictTimeline(Pointers(sets), "train", MeshOf(sets), costs);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return *std::move(timeline);
}

TEST(LlamaPipelineTest, SixteenRanks_AreVerified) {
  for (const Shape& shape : {Shape{}, Shape{.layers = 11}, Shape{.chunks = 1},
                             Shape{.kind = program::ScheduleKind::kInterleaved},
                             Shape{.micro_batches = 5, .kind = program::ScheduleKind::k1F1B}}) {
    const std::vector<ProgramSet> built = Build(shape);
    ASSERT_EQ(MeshOf(built).ranks(), 16);
    EXPECT_TRUE(VerifyAll(built).ok()) << VerifyAll(built);
  }
}

TEST(LlamaPipelineTest, ProgramOfTheFirstStage_IsAsStored) {
  const std::vector<ProgramSet> built = Build({.micro_batches = 4});
  const ProgramSet& stage = built.front();
  EXPECT_EQ(program::CompareWithGolden("tests/programs/goldens/llama_tensor4_pipeline4.txt",
                                       program::Dump(stage, stage.programs[0])),
            "");
}

TEST(LlamaPipelineTest, State_IsWhatOneWorksOutByHand) {
  // Floats of a rank of stage 0: its part of the table, and of two blocks the matrices' part and
  // the two whole norms; each with two moments.
  const int64_t table = 256 / 4 * 32;
  const int64_t matrices = ((8 + 2 * 4) * 4 * 32 + 32 * 8 * 4 + 3 * 96 * 32) / 4;
  const int64_t norms = 2 * 32;
  const int64_t rope = (64 + 64) * 4;  // context and a prefill chunk, of heads of 4
  const std::vector<ProgramSet> built = Build({});
  const program::TierMemory memory =
      program::ReadMemory(built[0]).tiers[static_cast<int>(program::Tier::kHost)];
  EXPECT_EQ(memory.persistent_bytes,
            program::kScalarBytes + 4 * (rope + 3 * (table + 2 * (matrices + norms))));
  EXPECT_GT(memory.peak_bytes, memory.persistent_bytes);
}

TEST(LlamaPipelineTest, DigestsOfGroups_AgreeBetweenStages) {
  const std::vector<ProgramSet> built = Build({});
  const auto first = program::GroupDigests(built.front()),
             last = program::GroupDigests(built.back());
  EXPECT_EQ(first.at(program::Group::kEmbedding), last.at(program::Group::kEmbedding));
  EXPECT_EQ(first.at(program::Group::kPipeline), last.at(program::Group::kPipeline));
  EXPECT_EQ(program::GroupDigests(built[1]).count(program::Group::kEmbedding), 0u);
}

// Of the seconds that a rank's collectives on the tensor stream take in the last step: all of them,
// and those in which the compute stream is busy.
std::pair<double, double> TensorSeconds(const program::Timeline& timeline, int rank) {
  const program::RankTimes& times = timeline.walked.ranks[rank];
  const size_t actions = times.expanded->actions.size();
  std::vector<program::Span> compute, tensor;
  for (size_t n = times.spans.size() - actions; n < times.spans.size(); ++n) {
    const program::Stream stream = times.expanded->actions[n % actions].stream;
    if (stream == program::Stream::kCompute) compute.push_back(times.spans[n]);
    if (stream == program::Stream::kTensor) tensor.push_back(times.spans[n]);
  }
  double all = 0, hidden = 0;
  size_t next = 0;  // spans of a stream follow each other
  for (const program::Span& span : tensor) {
    all += span.end - span.begin;
    while (next < compute.size() && compute[next].end <= span.begin) ++next;
    for (size_t c = next; c < compute.size() && compute[c].begin < span.end; ++c) {
      hidden += std::max(
          0.0, std::min(span.end, compute[c].end) - std::max(span.begin, compute[c].begin));
    }
  }
  return {all, hidden};
}

TEST(LlamaPipelineTest, ChunkedGathers_HideUnderProducts) {
  const std::vector<ProgramSet> of_whole = Build({.chunks = 1}), of_cut = Build({.chunks = 4});
  const program::Timeline whole = Predict(of_whole), cut = Predict(of_cut);
  for (int rank = 0; rank < 16; rank += 5) {
    const auto [all_whole, hidden_whole] = TensorSeconds(whole, rank);
    const auto [all_cut, hidden_cut] = TensorSeconds(cut, rank);
    EXPECT_NEAR(all_cut, all_whole, 1e-9 * all_whole);  // as many bytes
    EXPECT_LT(hidden_whole, 0.05 * all_whole);
    EXPECT_GT(hidden_cut, 0.5 * all_cut);
  }
  EXPECT_LT(cut.step_seconds, 0.9 * whole.step_seconds);
  EXPECT_THAT(cut.Draw(0, 120), HasSubstr("tensor"));
}

TEST(LlamaPipelineTest, Schedules_AreFasterInTheOrderOfTheirBubbles) {
  const double plain = Predict(Build({.kind = program::ScheduleKind::k1F1B})).step_seconds;
  const double interleaved =
      Predict(Build({.kind = program::ScheduleKind::kInterleaved})).step_seconds;
  const double zero_bubble = Predict(Build({})).step_seconds;
  EXPECT_LT(interleaved, plain);
  EXPECT_LT(zero_bubble, interleaved);
}

TEST(LlamaPipelineTest, MissingReductionOfNormWeights_IsRefused) {
  std::vector<ProgramSet> built = Build({});
  for (program::Instruction& instruction : built[2].programs[0].instructions) {
    if (instruction.label != "reduce vectors over tensor") continue;
    instruction.mechanism = program::Mechanism::kSignal;
    instruction.operands.clear();
  }
  const std::string message(VerifyAll(built).message());
  EXPECT_THAT(message, HasSubstr("norm layers.6.norms"));
  EXPECT_THAT(message, HasSubstr("must be complete but is a partial sum over tensor"));
}

TEST(LlamaPipelineTest, ReductionOfAnotherSizeOnTheLastStage_IsRefused) {
  std::vector<ProgramSet> built = Build({});
  for (program::Instruction& instruction : built[3].programs[0].instructions) {
    if (instruction.label == "reduce embedding over embedding") {
      instruction.communication.bytes -= 128;
    }
  }
  const std::string message(VerifyAll(built).message());
  EXPECT_THAT(message, ContainsRegex("group embedding of ranks .(0, 12|1, 13|2, 14|3, 15)."));
  EXPECT_THAT(message, ContainsRegex("rank 1[2-5] at instruction"));
  EXPECT_THAT(message, HasSubstr("all-reduce of 8064 bytes"));
}

}  // namespace
}  // namespace strata

#include "planner/fit/memory_of_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ops/attention.h"
#include "planner/fit/closed_form.h"
#include "planner/fit/collective_scratch.h"
#include "planner/fit/fit_testing.h"
#include "planner/fit/library_attention.h"
#include "planner/job/job_plan.h"

namespace strata::planner {
namespace {

constexpr double kGB = 1e9;

MemoryOfJob Read(const FitRequest& request) {
  auto memory = ReadMemoryOfJob(request);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return memory.ok() ? *std::move(memory) : MemoryOfJob{.stages = {StageMemory()}};
}

TierBytes OfRank0(const FitRequest& request) {
  const MemoryOfJob memory = Read(request);
  return memory.of_rank(0).tier(memory.compute_tier);
}

double GB(const TierBytes& tier, ByteClass c) { return static_cast<double>(tier.of(c)) / kGB; }
// Weights, gradients, masters and moments.
double States(const TierBytes& tier) {
  return GB(tier, ByteClass::kParameters) + GB(tier, ByteClass::kGradients) +
         GB(tier, ByteClass::kMaster) + GB(tier, ByteClass::kOptimizer);
}

// 999.998 M parameters.
FitModel OneBillion() {
  FitModel model{.name = "1B"};
  model.spec = {.layers = 17,
                .hidden = 2048,
                .heads = 16,
                .kv_heads = 16,
                .head_size = 128,
                .ffn = 5632,
                .vocab = 30875,
                .context = 4096};
  return model;
}

TEST(MemoryOfJob, OfABillionInF32_Is4And4And8GBAnd18To20InAll) {
  FitRequest request = RequestOf(OneBillion(), Method::kF32, Card(80'000'000'000), 2048);
  request.job.mutable_train()->set_global_batch(4);  // gradients of four passes are added up
  const TierBytes tier = OfRank0(request);
  EXPECT_NEAR(request.model.parameters(), 1e9, 1e5);
  EXPECT_NEAR(GB(tier, ByteClass::kParameters), 4.00, 0.005);
  EXPECT_NEAR(GB(tier, ByteClass::kGradients), 4.00, 0.005);
  EXPECT_NEAR(GB(tier, ByteClass::kOptimizer), 8.00, 0.005);
  const double all = static_cast<double>(tier.total()) / kGB;
  EXPECT_GT(all, 18);
  EXPECT_LT(all, 20);
}

TEST(MemoryOfJob, ClassesAddUpToTheArena) {
  for (const Method method : {Method::kF32, Method::kMixed, Method::kQlora, Method::kInference}) {
    const TierBytes tier = OfRank0(RequestOf("llama-3.2-1b", method, Card(24'000'000'000), 512));
    const int64_t sum = std::accumulate(tier.bytes.begin(), tier.bytes.end(), int64_t{0});
    EXPECT_EQ(sum, tier.arena_bytes + tier.of(ByteClass::kOverhead));
    for (const int64_t bytes : tier.bytes) EXPECT_GE(bytes, 0);
  }
}

// At home on the host, with room on the device for the ranges that are there at once.
TEST(MemoryOfJob, StatesInUnifiedMemory_CountWhereTheyAreAtHomeAndTheirRoomsOnTheDevice) {
  FitRequest request = RequestOf(OneBillion(), Method::kF32, Card(80'000'000'000), 2048);
  const TierBytes before = OfRank0(request);
  request.job.mutable_memory()->mutable_place()->mutable_optimizer()->set_unified(1);
  const StageMemory stage = Read(request).of_rank(0);
  const TierBytes& device = stage.tier(program::Tier::kDevice);
  const TierBytes& host = stage.tier(program::Tier::kHost);
  EXPECT_NEAR(GB(host, ByteClass::kOptimizer), 8.00, 0.01);
  EXPECT_EQ(GB(device, ByteClass::kOptimizer), 0);
  EXPECT_NEAR(GB(device, ByteClass::kParameters), 4.00, 0.005);
  // Two moments of a range of 32 MiB each: while it is updated, the next comes and the last goes;
  // and what packing loses.
  EXPECT_GE(GB(device, ByteClass::kStaging), 2 * 0.0335);
  EXPECT_LE(GB(device, ByteClass::kStaging), 4 * 2 * 0.0336);
  EXPECT_LT(device.arena_bytes, before.arena_bytes - 7 * int64_t{1'000'000'000});
}

// Rows of the worked table: 16 bytes a parameter, 2 + 4 + 4 + 8 with a master beside 16 bits.
TEST(MemoryOfJob, OfFullTrainingInF32_Is16BytesAParameter) {
  struct Row {
    const char* model;
    double gigabytes;
  };
  for (const Row& row :
       {Row{"llama-3.1-8b", 128.5}, Row{"llama-3.1-70b", 1129}, Row{"llama-3.1-405b", 6494}}) {
    FitRequest request = RequestOf(row.model, Method::kF32, Card(80'000'000'000), 2048);
    RecomputeAll(request);
    EXPECT_NEAR(States(OfRank0(request)) / row.gigabytes, 1, 1e-3) << row.model;
  }
}

TEST(MemoryOfJob, Of8B_FollowsTheLadderOfTypesAndAdapters) {
  const FitDevice card = Card(80'000'000'000);
  FitRequest mixed = RequestOf("llama-3.1-8b", Method::kMixed, card, 1024);
  RecomputeAll(mixed);
  EXPECT_NEAR(States(OfRank0(mixed)), 144.5, 0.2);  // 18 bytes a parameter
  v1::OptimizerSpec& optimizer = *mixed.job.mutable_train()->mutable_optimizer();
  optimizer.set_master(v1::OptimizerSpec::MASTER_SPLIT);
  optimizer.set_state(v1::OptimizerSpec::STATE_8BIT);
  optimizer.set_gradient(v1::OptimizerSpec::GRADIENT_BF16);
  // 8 a parameter, scales of 8-bit blocks, and the table's gradient in f32 while it is added up.
  EXPECT_NEAR(States(OfRank0(mixed)), 64.2 + 0.25 + 2.1, 0.1);
  // 2 bytes a weight; adapters are 41.9 M.
  const TierBytes lora = OfRank0(RequestOf("llama-3.1-8b", Method::kLora, card, 1024));
  EXPECT_NEAR(States(lora), 16.7, 0.15);
  EXPECT_NEAR(GB(lora, ByteClass::kMaster), 0.0419 * 4, 0.001);
  // 0.5195 bytes for each of 6.98 B quantised weights, 2 for the table and the head.
  const TierBytes qlora = OfRank0(RequestOf("llama-3.1-8b", Method::kQlora, card, 1024));
  EXPECT_NEAR(GB(qlora, ByteClass::kParameters), 0.5195 * 6.9793 + 2 * 1.0510 + 0.084, 0.05);
}

// Of adapters of rank 16 on all linear layers, without gradients, which are there a layer at a
// time: 2 bytes a frozen weight or half a byte, and 14 an adapter parameter.
TEST(MemoryOfJob, OfAdapters_IsAsTheWorkedTableHasIt) {
  struct Row {
    const char* model;
    double lora, qlora, tolerance;
  };
  for (const Row& row : {Row{"llama-3.1-8b", 16.7, 6.4, 0.15}, Row{"llama-3.1-70b", 144, 43, 0.7},
                         Row{"llama-3.1-405b", 820, 220, 6}}) {
    const FitDevice card = Card(80'000'000'000);
    EXPECT_NEAR(States(OfRank0(RequestOf(row.model, Method::kLora, card, 1024))), row.lora,
                row.tolerance)
        << row.model;
    EXPECT_NEAR(States(OfRank0(RequestOf(row.model, Method::kQlora, card, 1024))), row.qlora,
                row.tolerance)
        << row.model;
  }
}

// 34 bytes a token and unit of width for 8B by chance: 36.5 GB of 8,192 tokens, and 2.15 GB of
// boundaries with full recompute.
TEST(ClosedForm, ActivationsOf8B_AreAsDerivedByHand) {
  FitRequest request = RequestOf("llama-3.1-8b", Method::kMixed, Card(80'000'000'000), 8192);
  request.model.kind = FitModel::Kind::kMoe;  // with one expert: the same model, without programs
  const auto activations = [&] { return GB(OfRank0(request), ByteClass::kActivations); };
  EXPECT_NEAR(activations(), 36.5 + 0.07, 0.1);
  RecomputeAll(request);
  EXPECT_NEAR(activations(), 2.15 + 0.07, 0.02);
}

// Rajbhandari et al., "ZeRO", SC 2020: what ranks share is divided by their number.
TEST(MemoryOfJob, OfShardedRanks_IsDividedAsZeroSays) {
  const FitDevice card = Card(80'000'000'000);
  FitRequest request = RequestOf("llama-2-7b", Method::kF32, card, 512);
  ShareAmong(64, request);
  RecomputeAll(request);
  const double own = 16 * 6.738 / 64;
  const TierBytes zero3 = OfRank0(request);
  EXPECT_NEAR(GB(zero3, ByteClass::kOptimizer), 8 * 6.738 / 64, 0.01);
  EXPECT_GT(States(zero3), own * 0.99);
  v1::ParallelSpec& parallel = *request.job.mutable_parallel();
  parallel.set_shard(v1::ParallelSpec::SHARD_ZERO1);
  parallel.set_virtual_shards(64);
  const TierBytes zero1 = OfRank0(request);
  EXPECT_NEAR(GB(zero1, ByteClass::kParameters), 4 * 6.738, 0.01);
  EXPECT_NEAR(GB(zero1, ByteClass::kOptimizer), 8 * 6.738 / 64, 0.01);
}

// The same paper's example, figure 1: 7.5 billion parameters on 64 ranks, 2 + 2 + 12 bytes each.
TEST(ClosedForm, StatesOf7BillionOn64Ranks_AreThoseOfZerosPaper) {
  FitModel model{.name = "7.5B", .kind = FitModel::Kind::kMoe};  // with one expert
  model.spec = {.layers = 36,
                .hidden = 4096,
                .heads = 32,
                .kv_heads = 32,
                .head_size = 128,
                .ffn = 11008,
                .vocab = 26140,
                .context = 4096};
  ASSERT_NEAR(model.parameters() / 7.5e9, 1, 1e-3);
  struct Row {
    v1::ParallelSpec::Shard shard;
    double gigabytes;
  };
  const double gathered = 2 * 2 * model.block_matrices() / 36 / kGB;  // two layers at a time
  for (const Row& row :
       {Row{v1::ParallelSpec::SHARD_NONE, 120}, Row{v1::ParallelSpec::SHARD_ZERO1, 31.4},
        Row{v1::ParallelSpec::SHARD_ZERO2, 16.6},
        Row{v1::ParallelSpec::SHARD_ZERO3, 1.9 + gathered}}) {
    FitRequest request = RequestOf(model, Method::kMixed, Card(80'000'000'000), 512);
    request.job.mutable_train()->mutable_optimizer()->set_gradient(
        v1::OptimizerSpec::GRADIENT_BF16);
    ShareAmong(64, request);
    request.job.mutable_parallel()->set_shard(row.shard);
    EXPECT_NEAR(States(OfRank0(request)), row.gigabytes, 0.05) << row.shard;
  }
}

// Megatron-LM's distributed optimizer, theoretical_memory_usage.py: 6 + 12 / ranks bytes each.
TEST(MemoryOfJob, OfSharedOptimizerStates_IsSixBytesAndTwelveDividedByTheRanks) {
  FitRequest request = RequestOf("llama-3.1-8b", Method::kMixed, Card(80'000'000'000), 512);
  ShareAmong(8, request);
  RecomputeAll(request);
  v1::ParallelSpec& parallel = *request.job.mutable_parallel();
  parallel.set_shard(v1::ParallelSpec::SHARD_ZERO1);
  parallel.set_virtual_shards(8);
  EXPECT_NEAR(States(OfRank0(request)), 8.03 * (6 + 12.0 / 8), 0.1);
}

TEST(ClosedForm, OfMoreThanAnythingHas_IsStillANumber) {
  FitModel model{.name = "huge", .kind = FitModel::Kind::kMoe};
  model.spec = {.layers = 4096,
                .hidden = int64_t{1} << 20,
                .heads = 8192,
                .kv_heads = 8192,
                .head_size = 128,
                .ffn = int64_t{1} << 22,
                .vocab = int64_t{1} << 30,
                .context = int64_t{1} << 24};
  model.experts = model.experts_per_token = 65536;
  FitRequest request = RequestOf(model, Method::kF32, Card(80'000'000'000), int64_t{1} << 24);
  request.job.mutable_train()->set_micro_batch(65536);
  const TierBytes tier = OfRank0(request);
  for (const int64_t bytes : tier.bytes) EXPECT_GE(bytes, 0);
  EXPECT_GT(tier.total(), int64_t{1} << 59);
}

TEST(MemoryOfJob, OfAPipeline_NamesTheRankThatHoldsMost) {
  FitRequest request = RequestOf("llama-3.1-8b", Method::kMixed, Card(80'000'000'000), 1024);
  request.job.mutable_parallel()->set_pipeline(4);
  request.job.mutable_train()->set_global_batch(4);
  const MemoryOfJob memory = Read(request);
  ASSERT_EQ(memory.stages.size(), 4);
  const int64_t worst = memory.of_rank(memory.worst_rank()).tier(memory.compute_tier).total();
  for (const StageMemory& stage : memory.stages) {
    EXPECT_LE(stage.tier(memory.compute_tier).total(), worst);
  }
}

TEST(MemoryOfJob, OfCards_CountsWhatTheRuntimeTakes_OfCpusNothing) {
  const MemoryOfJob card = Read(RequestOf("gpt2", Method::kMixed, *DeviceOf("h100", 0), 512));
  EXPECT_GT(card.of_rank(0).tier(program::Tier::kDevice).of(ByteClass::kOverhead), 500'000'000);
  for (const OverheadItem& item : card.overhead_items) EXPECT_FALSE(item.source.empty());
  const MemoryOfJob cpu = Read(RequestOf("gpt2", Method::kF32, *DeviceOf("cpu", 0), 512));
  EXPECT_TRUE(cpu.overhead_items.empty());
  EXPECT_EQ(cpu.of_rank(0).tier(program::Tier::kHost).of(ByteClass::kOverhead), 0);
}

TEST(MemoryOfJob, OfHopper_CountsTheBoundOfCudnnWhereItMayCompute) {
  const auto overhead = [](const char* device, Method method, const char* model = "gpt2") {
    const MemoryOfJob memory = Read(RequestOf(model, method, *DeviceOf(device, 0), 1));
    int64_t bytes = 0;
    for (const OverheadItem& item : memory.overhead_items) {
      if (item.what == "cuDNN's workspace") bytes += item.bytes;
    }
    return bytes;
  };
  for (const char* device : {"h100", "h100-80", "h200"}) {
    EXPECT_EQ(overhead(device, Method::kMixed), kLibraryAttentionBytes) << device;
    EXPECT_EQ(overhead(device, Method::kLora), kLibraryAttentionBytes) << device;
  }
  EXPECT_EQ(overhead("gh200", Method::kMixed), kLibraryAttentionBytes);
  EXPECT_EQ(overhead("h200", Method::kMixed, "gemma-2-2b"), 0);  // caps its scores
  EXPECT_EQ(overhead("h200", Method::kF32), 0);
  EXPECT_EQ(overhead("h200", Method::kInference), 0);
  EXPECT_EQ(overhead("h200", Method::kMixed, "mlp"), 0);
  EXPECT_EQ(overhead("b200", Method::kMixed), 0);  // Strata's kernels, unless cuDNN is asked for
  EXPECT_EQ(overhead("a100", Method::kMixed), 0);
  // Of a card whose kind nobody names it is not known what attends.
  const MemoryOfJob sized =
      Read(RequestOf("gpt2", Method::kMixed, *DeviceOf("80GB", 80'000'000'000), 1));
  for (const OverheadItem& item : sized.overhead_items) EXPECT_NE(item.what, "cuDNN's workspace");
}

// Whether the job's programs have attention that the engine asks a library for: of whole sequences
// in 16 bits, without documents (worker/engine/cuda/binding/attention.cc); the library takes no
// windows and no caps, and heads of a multiple of 8 up to 256 (kernels/cuda/cudnn).
bool ProgramsAskTheLibrary(const FitRequest& request) {
  const auto decided = DecideJob(request.job, request.model.spec, {.scratch = CollectiveScratch});
  EXPECT_TRUE(decided.ok()) << decided.status();
  bool asks = false;
  for (int stage = 0; stage < decided->decision.plan.groups.pipeline; ++stage) {
    const auto programs = program::ComposeStage(decided->decision, stage, decided->update);
    for (const program::Template& at : programs->set.templates) {
      for (const program::Op& op : at.ops) {
        if (op.kind != program::OpKind::kAttentionForward) continue;
        const auto read = ops::FromOp<ops::AttentionForward>(op);
        const ops::AttentionShape& shape = read->shape;
        const bool windowed = shape.scores.window > 0 && shape.scores.window < shape.sequence;
        asks |= !read->documents && shape.type != program::DType::kF32 && !windowed &&
                shape.scores.softcap == 0 && shape.head_size % 8 == 0 && shape.head_size <= 256;
      }
    }
  }
  return asks;
}

TEST(LibraryMayAttend, EqualsWhatTheProgramsOfTheJobAskFor) {
  int takes = 0, refuses = 0;
  const auto check = [&](const FitRequest& request, const char* what) {
    const bool may = LibraryMayAttend(request);
    EXPECT_EQ(may, ProgramsAskTheLibrary(request)) << request.model.name << ", " << what;
    ++(may ? takes : refuses);
  };
  for (const char* name : {"gpt2", "llama-3.2-1b", "gemma-2-2b", "gemma-3-1b", "phi-3-mini"}) {
    for (const Method method : {Method::kF32, Method::kMixed, Method::kLora}) {
      check(RequestOf(name, method, *DeviceOf("h200", 0), 1024), "as it is");
    }
    FitRequest request = RequestOf(name, Method::kMixed, *DeviceOf("h200", 0), 1024);
    request.job.mutable_data()->set_packing(true);
    check(request, "documents");
    request.job.mutable_data()->clear_packing();
    FitRequest windows = request;
    windows.model.spec.sliding_window = 256;
    windows.model.spec.full_attention.clear();
    check(windows, "windows in all layers");
    windows.model.spec.sliding_window = 4096;
    check(windows, "windows as long as a sequence");
    for (const auto method :
         {v1::ParallelSpec::CONTEXT_METHOD_RING, v1::ParallelSpec::CONTEXT_METHOD_ALL_GATHER,
          v1::ParallelSpec::CONTEXT_METHOD_ALL_TO_ALL}) {
      FitRequest parts = request;
      parts.job.mutable_parallel()->set_context(2);
      parts.job.mutable_parallel()->set_context_method(method);
      parts.job.mutable_resources()->set_ranks(2);
      check(parts, v1::ParallelSpec::ContextMethod_Name(method).c_str());
    }
  }
  EXPECT_GT(takes, 5);
  EXPECT_GT(refuses, 5);
}

TEST(MemoryOfJob, AttentionWithoutFlash_IsHeadsTimesSequenceSquared) {
  const MemoryOfJob memory =
      Read(RequestOf("llama-3.1-8b", Method::kMixed, Card(80'000'000'000), 2048));
  EXPECT_DOUBLE_EQ(memory.score_bytes, 2.0 * 2 * 32 * 2048 * 2048);
}

TEST(MemoryOfJob, OfWhatTheEngineCannotRun_IsAClosedFormAndSaysSo) {
  for (const char* name : {"mixtral-8x7b", "bert-base", "vit-l-16", "mlp"}) {
    FitRequest request = RequestOf(name, Method::kMixed, Card(80'000'000'000), 128);
    if (std::string(name) == "mlp") request.job.mutable_train()->set_sequence(1);
    const MemoryOfJob memory = Read(request);
    EXPECT_FALSE(memory.from_program) << name;
    EXPECT_THAT(memory.basis, testing::HasSubstr("closed form"));
    EXPECT_NEAR(States(memory.of_rank(0).tier(program::Tier::kDevice)),
                18 * request.model.parameters() / kGB, 0.02)
        << name;
  }
}

TEST(LeastComputeBytes, IsNeverMoreThanWhatProgramsHold) {
  for (const char* name : {"gpt2", "llama-3.2-1b", "llama-3.1-8b", "gemma-2-2b", "qwen3-4b"}) {
    for (const Method method :
         {Method::kF32, Method::kMixed, Method::kLora, Method::kQlora, Method::kInference}) {
      for (const int64_t ranks : {1, 4}) {
        for (const bool all : {false, true}) {
          FitRequest request = RequestOf(name, method, Card(80'000'000'000), 512);
          if (ranks > 1 && method != Method::kInference) ShareAmong(ranks, request);
          if (all) {
            RecomputeAll(request);
            request.job.mutable_train()->set_micro_batch(16);
            request.job.mutable_train()->set_global_batch(16 * ranks);
          }
          if (all && method == Method::kInference) continue;
          const int64_t least = LeastComputeBytes(request);
          EXPECT_LE(least, OfRank0(request).arena_bytes) << name;
          EXPECT_GT(least, 0);
        }
      }
    }
  }
}

TEST(MemoryOfJob, OfPassesBeyondAllMemory_IsAClosedFormInAMoment) {
  FitRequest request = RequestOf("llama-3.1-8b", Method::kMixed, Card(80'000'000'000), 131072);
  request.job.mutable_train()->set_micro_batch(65536);
  request.job.mutable_train()->set_global_batch(65536);
  const MemoryOfJob memory = Read(request);
  EXPECT_FALSE(memory.from_program);
  EXPECT_THAT(memory.basis, testing::HasSubstr("would be too long"));
  EXPECT_GT(LeastComputeBytes(request), int64_t{1} << 50);
}

// The closed forms against programs, for a model that has both.
TEST(MemoryOfJob, ClosedFormsOfAModelWithPrograms_AreWithinATenthOfThem) {
  FitRequest request = RequestOf("llama-3.1-8b", Method::kMixed, Card(80'000'000'000), 2048);
  const double program = static_cast<double>(OfRank0(request).total());
  request.job.mutable_train()->set_precision(v1::TrainSpec::PRECISION_FP8);
  const MemoryOfJob fp8 = Read(request);
  EXPECT_FALSE(fp8.from_program);
  EXPECT_NEAR(static_cast<double>(fp8.of_rank(0).tier(program::Tier::kDevice).total()) / program, 1,
              0.1);
}

// The same of unified memory: homes on the host, and on the device rooms instead.
TEST(MemoryOfJob, ClosedFormsOfUnifiedMemory_AgreeWithPrograms) {
  for (const Method method : {Method::kF32, Method::kMixed}) {
    for (const bool weights : {false, true}) {
      FitRequest request = RequestOf("llama-3.1-8b", method, Card(120'000'000'000), 2048);
      v1::MemorySpec& memory = *request.job.mutable_memory();
      memory.mutable_place()->mutable_optimizer()->set_unified(1);
      if (weights) memory.mutable_place()->mutable_parameters()->set_unified(1);
      memory.mutable_stream()->Clear();
      memory.mutable_stream()->set_resident(3);
      memory.mutable_stream()->set_moved(1);
      const StageMemory program = Read(request).of_rank(0);
      const StageMemory closed = ClosedForm(request).of_rank(0);
      const auto ratio = [&](program::Tier tier, auto bytes) {
        return static_cast<double>(bytes(closed.tier(tier))) /
               static_cast<double>(bytes(program.tier(tier)));
      };
      const auto arena = [](const TierBytes& tier) { return tier.arena_bytes; };
      const auto rooms = [](const TierBytes& tier) { return tier.of(ByteClass::kStaging); };
      EXPECT_NEAR(ratio(program::Tier::kHost, arena), 1, 0.001);
      EXPECT_NEAR(ratio(program::Tier::kDevice, rooms), 1, 0.1);
      for (const ByteClass gone : {ByteClass::kMaster, ByteClass::kOptimizer}) {
        EXPECT_EQ(program.tier(program::Tier::kDevice).of(gone), 0);
        EXPECT_EQ(closed.tier(program::Tier::kDevice).of(gone), 0);
      }
    }
  }
}

}  // namespace
}  // namespace strata::planner

#include "planner/evaluation/runs_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace strata::planner {
namespace {

using testing::HasSubstr;

constexpr char kColumns[] =
    "id,source_id,framework,layers,hidden,heads,ffn_hidden,gated_mlp,vocab,seq_len,n_experts,"
    "moe_topk,moe_ffn_hidden,gpu,n_gpus,tp,pp,dp_sharding,mbs_seqs,gbs_seqs,recompute,precision,"
    "iter_time_s_best,iter_time_basis,peak_mem_GiB_reported\n";

std::vector<MeasuredRun> Read(const std::string& rows) {
  const auto runs = ReadRuns(absl::StrCat(kColumns, rows), "runs.csv");
  EXPECT_TRUE(runs.ok()) << runs.status();
  return runs.ok() ? *runs : std::vector<MeasuredRun>(8);
}

std::string ErrorOf(const std::string& rows) {
  const auto runs = ReadRuns(absl::StrCat(kColumns, rows), "runs.csv");
  EXPECT_TRUE(absl::IsInvalidArgument(runs.status()));
  return std::string(runs.status().message());
}

TEST(ReadRuns, ACompleteRowIsUnderstood) {
  const MeasuredRun run = Read(
      "a-1,a,NeMo,32,4096,32,14336,1,128256,8192,,,,H100,64,4,2,zero1,1,256,full,"
      "fp8 hybrid,2.5,reported,60\n")[0];
  EXPECT_EQ(run.reason, "");
  EXPECT_EQ(run.layout.data, 8);
  EXPECT_EQ(run.layout.micro_batches(), 32);
  EXPECT_EQ(run.layout.precision, Precision::kFp8);
  EXPECT_EQ(run.layout.recompute, Recompute::kFull);
  EXPECT_EQ(run.layout.sharding, Sharding::kZero1);
  EXPECT_TRUE(run.layout.sequence_parallel);
  EXPECT_EQ(run.shape.kv_heads, 32);
  EXPECT_EQ(run.shape.head_dim, 128);
  EXPECT_TRUE(run.direct);
  EXPECT_EQ(run.seconds, 2.5);
  EXPECT_EQ(run.memory_bytes, 60.0 * 1024 * 1024 * 1024);
}

TEST(ReadRuns, EmptyMeasurementsAreAbsent) {
  const MeasuredRun run =
      Read("a-1,a,,32,4096,32,14336,1,128256,8192,,,,H100,8,1,1,FSDP2,1,8,none,bf16,,,\n")[0];
  EXPECT_EQ(run.reason, "");
  EXPECT_EQ(run.layout.sharding, Sharding::kZero3);
  EXPECT_FALSE(run.seconds.has_value());
  EXPECT_FALSE(run.direct);
}

TEST(ReadRuns, SecondsDerivedFromFlopsAreNotDirect) {
  const std::string row = "a-1,a,,32,4096,32,14336,1,128256,8192,,,,H100,8,1,1,,1,8,none,bf16,2.5,";
  EXPECT_FALSE(Read(row + "from MFU,\n")[0].direct);
  EXPECT_TRUE(Read(row + "from tokens/s/GPU,\n")[0].direct);
}

TEST(ReadRuns, ExpertsNeedTheirOwnSizes) {
  const std::string begin = "a-1,a,,32,4096,32,,1,32000,4096,8,",
                    end = ",H100,8,1,1,zero1,1,8,none,bf16,,,\n";
  const MeasuredRun run = Read(begin + "2,14336" + end)[0];
  EXPECT_EQ(run.reason, "");
  EXPECT_EQ(run.shape.experts, 8);
  EXPECT_EQ(run.shape.expert_ffn, 14336);
  EXPECT_EQ(Read(begin + "," + end)[0].reason, "moe_topk is missing");
}

TEST(ReadRuns, RowsThatCannotBePredictedSayWhy) {
  EXPECT_EQ(Read("a,a,,,4096,32,1,1,1,8,,,,H100,8,1,1,,1,8,,bf16,,,\n")[0].reason,
            "layers is missing");
  EXPECT_EQ(Read("a,a,,2.5,4096,32,1,1,1,8,,,,H100,8,1,1,,1,8,,bf16,,,\n")[0].reason,
            "layers: 2.5 is no whole number");
  EXPECT_EQ(Read("a,a,,2,1e11,32,1,1,1,8,,,,H100,8,1,1,,1,8,,bf16,,,\n")[0].reason,
            "hidden: 1e11 is too many");
  EXPECT_EQ(Read("a,a,,2,4096,32,1,1,1,8,,,,H100,8,1e9,1e9,,1,8,,bf16,,,\n")[0].reason,
            "more ranks than n_gpus 8");
  EXPECT_EQ(Read("a,a,,2,4096,32,1,1,1,8,,,,H100,8,3,1,,1,8,,bf16,,,\n")[0].reason,
            "n_gpus 8 is no multiple of tp x pp x cp = 3");
  EXPECT_EQ(Read("a,a,,2,4096,32,1,1,1,8,,,,H100,8,1,8,,1,8,,bf16,,,\n")[0].reason,
            "8 pipeline stages for 2 layers");
  EXPECT_EQ(Read("a,a,,2,4096,32,1,1,1,8,,,,H100,8,1,1,,1,8,,posit,,,\n")[0].reason,
            "precision \"posit\" is not known");
}

TEST(ReadRuns, WordsForNothingAndZeroAreAbsent) {
  const MeasuredRun run =
      Read("a,a,,2,4096,32,1,1,1,8,0,none,-,H100,8,1,1,n/a,1,8,None,bf16,NaN,,?\n")[0];
  EXPECT_EQ(run.reason, "");
  EXPECT_FALSE(run.seconds.has_value());
  EXPECT_FALSE(run.memory_bytes.has_value());
}

TEST(ReadRuns, FullyShardedMegatronIsRunByDeepSpeed) {
  const std::string begin = "a,a,Megatron-LM,2,4096,32,1,1,1,8,,,,H100,8,1,1,",
                    end = ",1,8,,bf16,,,\n";
  EXPECT_EQ(Read(begin + "ZeRO-3" + end)[0].machine.framework, "DeepSpeed ZeRO-3");
  EXPECT_EQ(Read(begin + "none" + end)[0].machine.framework, "Megatron-LM");
}

TEST(ReadRuns, APartialLastMicroBatchCountsAsOne) {
  const MeasuredRun run = Read("a,a,,2,4096,32,1,1,1,8,,,,H100,8,1,1,,2,20,,bf16,,,\n")[0];
  EXPECT_EQ(run.layout.micro_batches(), 2);
}

TEST(ReadRuns, FieldsThatAreNoNumbersAreToldWithTheirPlaces) {
  EXPECT_THAT(ErrorOf("a,a,,two,4096,32,1,1,1,8,,,,H100,8,1,1,,1,8,,bf16,,,\n"),
              HasSubstr("runs.csv:2:6: layers: two is no positive number — correct it"));
  EXPECT_THAT(ErrorOf("a,a,,2,-4,32,1,1,1,8,,,,H100,8,1,1,,1,8,,bf16,inf,,\n"),
              HasSubstr("runs.csv:2:47: iter_time_s_best: inf is no positive number"));
  EXPECT_THAT(ErrorOf("a,a,,2,4,32,1,maybe,1,8,,,,H100,8,1,1,,1,8,,bf16,,,\n"),
              HasSubstr("gated_mlp: maybe is neither yes nor no"));
}

TEST(ReadRuns, MissingColumnsAreNamed) {
  const auto runs = ReadRuns("id,gpu\n", "runs.csv");
  EXPECT_THAT(runs.status().message(), HasSubstr("runs.csv:1:1: column n_gpus is missing"));
  EXPECT_THAT(runs.status().message(), HasSubstr("column precision is missing"));
}

}  // namespace
}  // namespace strata::planner

#include "client/job_loading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "client/checkpoint_source.h"
#include "client/feasibility.h"
#include "client/metrics_path.h"
#include "common/clock.h"
#include "spec/good_job.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;

class JobLoading : public testing::Test {
 protected:
  void SetUp() override {
    const auto& test = *testing::UnitTest::GetInstance()->current_test_info();
    folder_ = Absolute(test.name(), testing::TempDir());
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/folder");
    Write("text.txt", std::string(20'000, 'x'));
    Write("empty.txt", "");
    Write("short.txt", "In the beginning");
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
  }

  // The good job with relative paths.
  absl::StatusOr<LoadedJob> Load(std::vector<std::string> settings, int64_t memory = 0) {
    Write("job.yaml", spec::Changed("/box/text.txt", "text.txt"));
    spec::ReadOptions options;
    options.settings = {"checkpoint.directory=saved"};
    for (std::string& setting : settings) options.settings.push_back(std::move(setting));
    return LoadJob(folder_ + "/job.yaml", options, {.memory_bytes = memory});
  }
  std::string Told(std::vector<std::string> settings, int64_t memory = 0) {
    return std::string(Load(std::move(settings), memory).status().message());
  }

  std::string folder_;
};

TEST_F(JobLoading, PathsResolveAgainstTheFilesFolder) {
  const auto job = Load({});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->file.job.data().train(0).path(), folder_ + "/text.txt");
  EXPECT_EQ(job->file.job.checkpoint().directory(), folder_ + "/saved");
  EXPECT_FALSE(fs::exists(folder_ + "/saved"));  // loading creates nothing
}

TEST_F(JobLoading, UnusableDataFilesAreToldAtTheirPath) {
  const auto told = [&](const std::string& file) { return Told({"data.train[0].path=" + file}); };
  EXPECT_THAT(told("nowhere.txt"),
              ContainsRegex("--set:1:20: data.train\\[0\\].path: .*nowhere.txt: .*no such file"));
  EXPECT_THAT(told("folder"), ContainsRegex("data.train\\[0\\].path: .*directory"));
  EXPECT_THAT(told("empty.txt"), HasSubstr("empty"));
  EXPECT_THAT(told("short.txt"), HasSubstr("short"));
  EXPECT_THAT(Told({"data.validation={path: nowhere.txt}"}),
              ContainsRegex("data.validation.path: .*nowhere.txt"));
}

TEST_F(JobLoading, ProblemsOfTheFileAndOfWhatItNamesComeTogether) {
  const std::string told =
      Told({"train.steps=0", "data.train[0].path=nowhere.txt", "train.precision=fp8"});
  EXPECT_THAT(told, HasSubstr("train.steps"));
  EXPECT_THAT(told, HasSubstr("nowhere.txt"));
  EXPECT_THAT(told, HasSubstr("fp8 is not supported yet"));
}

TEST_F(JobLoading, AutoThatNoLayoutAnswersIsToldAtItsKey) {
  Write("auto.yaml",
        "model: {family: llama, layers: 2, hidden: 32, heads: 4, ffn: 64, vocab: 256}\n"
        "data: {train: [{path: text.txt}]}\n"
        "train: {sequence: 33, global_batch: 8}\n"
        "parallel: auto\n");
  spec::ReadOptions options;
  const auto told = [&] { return LoadJob(folder_ + "/auto.yaml", options, {}).status(); };
  options.ranks = 2;
  EXPECT_TRUE(told().ok()) << told();
  options.ranks = 7;
  EXPECT_EQ(told().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(told().message()),
              HasSubstr("auto.yaml:4:1: parallel: no layout is legal (the first, data 7"));
  options.ranks = 65;
  EXPECT_THAT(std::string(told().message()),
              HasSubstr("auto.yaml:4:1: parallel: auto looks at up to 64 ranks, not 65 — "));
}

TEST_F(JobLoading, WhereMemoryAloneIsOpenWhatCannotBeIsToldThere) {
  const auto told = [&](const std::string& micro_batch) {
    Write("open.yaml",
          "model: {family: llama, layers: 2, hidden: 32, heads: 4, ffn: 64, vocab: 256}\n"
          "data: {train: [{path: text.txt}]}\n"
          "train: {sequence: 32, global_batch: 8, micro_batch: " +
              micro_batch + "}\nparallel: {data: 2}\nmemory: auto\n");
    const DecisionBasis basis = {.room = [](const std::string&, int64_t) {
      return planner::RankRoom{.host = 1024, .host_node = "small"};
    }};
    return std::string(LoadJob(folder_ + "/open.yaml", {}, basis).status().message());
  };
  EXPECT_THAT(told("2"), HasSubstr("open.yaml:5:1: memory: of "));
  EXPECT_THAT(told("auto"), HasSubstr("open.yaml:3:53: train.micro_batch: of "));
}

TEST_F(JobLoading, WhatIsNotAboutLayoutsIsNotToldAtParallel) {
  Write("auto.yaml",
        "model: {family: llama, layers: 2, hidden: 32, heads: 4, ffn: 64, vocab: 256}\n"
        "data: {train: [{path: text.txt}]}\n"
        "parallel: auto\n");
  const auto told =
      LoadJob(folder_ + "/auto.yaml", {.ranks = 2}, {.profile = folder_ + "/no-profile"}).status();
  EXPECT_THAT(std::string(told.message()), HasSubstr("/no-profile"));
  EXPECT_THAT(std::string(told.message()), testing::Not(HasSubstr("auto.yaml:")));
}

TEST_F(JobLoading, AutoReadsTheModelsDirectoryOnceAndIsCorrectedByWhatWasLearned) {
  Write("from.yaml",
        "model: {from: the-model}\ndata: {train: [{path: text.txt}]}\n"
        "train: {sequence: 32, global_batch: 8}\nparallel: auto\nresources: {ranks: 2}\n");
  fs::create_directories(folder_ + "/the-model");
  Write("the-model/config.json",
        R"({"model_type": "llama", "hidden_size": 16, "num_attention_heads": 2,
            "intermediate_size": 24, "num_hidden_layers": 2, "vocab_size": 256,
            "max_position_embeddings": 64})");
  DecisionBasis basis;
  basis.learned = [&] {
    fs::remove(folder_ + "/the-model/config.json");
    planner::LearnedFamilies learned;
    v1::PlanFamily& family = *learned.Add();
    family.set_workload(
        "llama 2 x 16, heads 2/2 x 8, ffn 24, vocab 256, sequence 32, full f32, cpu");
    family.set_layout("tensor 2, data 1");
    family.set_ratio(1.5);
    family.set_steps(16);
    return learned;
  };
  const auto ranked = RankLayoutsOf(folder_ + "/from.yaml", {}, basis);
  ASSERT_TRUE(ranked.ok()) << ranked.status();
  EXPECT_GE(ranked->candidates.size(), 4u);
  for (const planner::Candidate& each : ranked->candidates) {
    ASSERT_TRUE(each.correction.has_value()) << each.words.ToText();
    EXPECT_EQ(each.correction->ratio, 1.5);
  }
  EXPECT_THAT(NoticesOf(*ranked)[0], HasSubstr("(1.5 × the predicted time, as 16 steps of "));
}

TEST_F(JobLoading, RankedLayoutsKeepWhatTheFileSaysBesideDegreesAndSharding) {
  const auto sets = [&](const std::string& parallel) {
    Write("kept.yaml",
          "model: {family: llama, layers: 4, hidden: 32, heads: 4, ffn: 64, vocab: 256}\n"
          "data: {train: [{path: text.txt}]}\ntrain: {sequence: 32, global_batch: 8}\n"
          "parallel: " +
              parallel + "\n");
    const auto ranked = RankLayoutsOf(folder_ + "/kept.yaml", {}, {});
    EXPECT_TRUE(ranked.ok()) << ranked.status();
    std::vector<std::string> all;
    for (const auto& each : ranked->candidates) all.push_back(each.settings[0]);
    return all;
  };
  const std::vector<std::string> kept = sets(
      "{pipeline: 2, pipeline_schedule: zero_bubble, virtual_shards: 4, "
      "recompute: {save: [], layers: 0-1}}");
  const auto has = [](const std::string& text) { return HasSubstr(text); };
  EXPECT_THAT(kept, testing::Each(has("recompute: {save: [], layers: 0-1}")));
  EXPECT_THAT(kept, testing::Each(has("virtual_shards: 4")));
  EXPECT_THAT(kept, testing::Contains(has("pipeline: 2")));
  EXPECT_THAT(kept, testing::Contains(has("data: 2")));
  for (const std::string& each : kept) {
    EXPECT_EQ(each.find("pipeline: 2") != std::string::npos,
              each.find("pipeline_schedule: zero_bubble") != std::string::npos)
        << each;
  }
  EXPECT_THAT(sets("{data: 2}"), testing::Each(testing::Not(has("virtual_shards"))));
}

TEST_F(JobLoading, ADecisionThatTakesLongSaysHowFarItIs) {
  common::ManualClock clock;
  spec::Problems problems("job.yaml");
  const std::string text =
      "model: {family: llama, layers: 2, hidden: 32, heads: 4, ffn: 64, vocab: 256}\n"
      "data: {train: [{path: text.txt}]}\n"
      "train: {sequence: 32, global_batch: 8}\nparallel: auto\nresources: {ranks: 2}\n";
  const spec::JobFile file = spec::ReadJob(text, {}, problems);
  std::vector<std::string> told;
  const DecisionBasis basis = {.say = [&](const std::string& line) { told.push_back(line); },
                               .clock = &clock};
  double seconds = 0;  // that each layout takes
  const ReadWith read = [&](const auto& settings) -> absl::StatusOr<v1::JobSpec> {
    clock.Advance(seconds);
    return spec::ReadJob(text, {.settings = settings}, problems).job;
  };
  ASSERT_TRUE(RankHere(file, read, basis).ok());
  EXPECT_THAT(told, testing::IsEmpty());
  seconds = 0.4;
  ASSERT_TRUE(RankHere(file, read, basis).ok());
  ASSERT_THAT(told, testing::Not(testing::IsEmpty()));
  EXPECT_THAT(told[0], ContainsRegex("^auto: looking at layouts, 3 of [0-9]+ so far$"));
}

TEST_F(JobLoading, AutoBesideOtherProblemsIsNoProblem) {
  const std::string told = Told({"parallel=auto", "train.micro_batch=auto", "train.stepz=2"});
  EXPECT_THAT(told, HasSubstr("train.stepz"));
  EXPECT_THAT(told, testing::Not(HasSubstr("not supported")));
}

TEST_F(JobLoading, ModelDirectoriesTellTheModelOrWhatIsWrongWithThem) {
  Write("from.yaml", "model: {from: the-model}\ndata: {train: [{path: text.txt}]}\n");
  const auto load = [&] { return LoadJob(folder_ + "/from.yaml", {}, {}); };
  const auto told = [&] { return std::string(load().status().message()); };
  EXPECT_THAT(told(), ContainsRegex("from.yaml:1:15: model.from: .*/the-model: no such directory"));
  fs::create_directories(folder_ + "/the-model");
  EXPECT_THAT(told(), ContainsRegex("from.yaml:1:15: model.from: .*/the-model/config.json: "));
  Write("the-model/config.json",
        R"({"model_type": "llama", "hidden_act": "relu", "head_dim": -1})");
  EXPECT_THAT(told(), ContainsRegex("1:15: model.from: .*config.json: hidden_act: "));
  EXPECT_THAT(told(), ContainsRegex("1:15: model.from: .*config.json: head_dim: "));
  Write("the-model/config.json",
        R"({"model_type": "llama", "hidden_size": 16, "num_attention_heads": 2,
            "intermediate_size": 24, "num_hidden_layers": 1, "vocab_size": 256,
            "max_position_embeddings": 64})");
  const auto job = load();
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->file.job.model().from(), folder_ + "/the-model");
  EXPECT_EQ(job->file.job.model().head_size(), 8);
  EXPECT_EQ(job->file.job.train().sequence(), 64);
  EXPECT_THAT(job->notices, testing::ElementsAre(HasSubstr("has no weights")));
  Write("the-model/tokenizer.model", "pieces");
  EXPECT_THAT(told(), ContainsRegex("2:1: data.tokenizer: .*/tokenizer.model: text is read by "));
  Write("the-model/model.safetensors", "no");
  EXPECT_THAT(told(), HasSubstr("no valid safetensors file"));
}

TEST_F(JobLoading, ModelThatFitsNowhereIsInfeasibleWithTheBytes) {
  const auto job = Load({"model.ffn=1048576", "model.layers=64"}, int64_t{64} << 30);
  EXPECT_EQ(job.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(job.status().message()),
              ContainsRegex("model: does not fit: needs at least [0-9.]+ [GT]iB"));
  EXPECT_TRUE(Load({}, int64_t{64} << 30).ok());
}

TEST_F(JobLoading, DirectoriesAreMadeAndExistingCheckpointsRefused) {
  auto job = Load({});
  ASSERT_TRUE(job.ok());
  ASSERT_TRUE(PrepareDirectories(folder_ + "/run", false, *job).ok());
  EXPECT_TRUE(fs::is_empty(folder_ + "/saved"));
  ASSERT_TRUE(PrepareDirectories(folder_ + "/run", false, *job).ok());
  fs::create_directories(folder_ + "/saved/step-00000020");
  const absl::Status refused = PrepareDirectories(folder_ + "/run", false, *job);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("step-00000020"));
  EXPECT_TRUE(PrepareDirectories(folder_ + "/run", true, *job).ok());
}

TEST_F(JobLoading, CheckpointDirectoryThatCannotBeMadeIsToldAtItsKey) {
  auto job = Load({"checkpoint.directory=text.txt/below-a-file"});
  ASSERT_TRUE(job.ok());
  EXPECT_THAT(std::string(PrepareDirectories(folder_ + "/run", false, *job).message()),
              ContainsRegex("--set:1:22: checkpoint.directory: .*below-a-file: cannot be created"));
}

TEST_F(JobLoading, CheckpointsStandInTheJobsDirectoryByDefault) {
  Write("least.yaml",
        "model: {family: llama, layers: 1, hidden: 8, heads: 2, ffn: 8}\n"
        "data: {train: [{path: text.txt}]}\n");
  auto job = LoadJob(folder_ + "/least.yaml", {}, {});
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(PrepareDirectories(folder_ + "/run", false, *job).ok());
  EXPECT_EQ(job->file.job.checkpoint().directory(), folder_ + "/run/checkpoints");
}

TEST_F(JobLoading, PathsThatAreNotUtf8AreRefused) {
  EXPECT_TRUE(CheckPathText("--dir", "/runs/é 漢").ok());
  const absl::Status refused = CheckPathText("--dir", "/runs/caf\xe9");
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(refused.message()),
            "--dir /runs/caf\\xe9: not UTF-8 — rename it, or choose another\n");
  Write("caf\xe9.yaml", spec::Changed("/box/text.txt", folder_ + "/text.txt"));
  EXPECT_THAT(std::string(LoadJob(folder_ + "/caf\xe9.yaml", {}, {}).status().message()),
              HasSubstr("not UTF-8"));
  fs::create_directories(folder_ + "/caf\xe9/step-00000001");
  EXPECT_THAT(std::string(FindCheckpoint(folder_ + "/caf\xe9").status().message()),
              HasSubstr("not UTF-8"));
}

TEST_F(JobLoading, MetricsThatAreNoFileOfTheirOwnAreRefused) {
  Write("text2.txt", std::string(20'000, 'y'));
  const auto job = Load({"data.validation={path: text2.txt}"});
  ASSERT_TRUE(job.ok()) << job.status();
  const auto told = [&](const std::string& path) {
    return std::string(CheckMetricsPath(path, *job).message());
  };
  fs::create_symlink("/dev/stdout", folder_ + "/out");
  for (const std::string& path :
       {std::string("/dev/stdout"), std::string("/dev/fd/1"), std::string("/dev/fd/77"),
        std::string("/proc/self/fd/1"), std::string("/dev/../proc/thread-self/fd/1"),
        std::string("-"), folder_ + "/out"}) {
    EXPECT_THAT(told(path), HasSubstr("name a file of its own")) << path;
  }
  fs::create_hard_link(folder_ + "/text.txt", folder_ + "/same.txt");
  fs::create_symlink("text2.txt", folder_ + "/linked.txt");
  EXPECT_THAT(told(folder_ + "/job.yaml"), HasSubstr("is the job file"));
  EXPECT_THAT(told(folder_ + "/same.txt"), HasSubstr("data files"));
  EXPECT_THAT(told(folder_ + "/linked.txt"), HasSubstr("data files"));
  EXPECT_THAT(told(folder_ + "/m\xff.jsonl"), HasSubstr("not UTF-8"));
  for (const char* good : {"/m.jsonl", "/empty.txt"}) EXPECT_EQ(told(folder_ + good), "");
  EXPECT_EQ(told("/dev/null"), "");
}

TEST_F(JobLoading, MetricsReplaceOnlyStepRecords) {
  const auto job = Load({});
  ASSERT_TRUE(job.ok()) << job.status();
  const struct {
    std::string text;
    bool taken;
  } cases[] = {{"", true},
               {"{\"applied\":1,\"loss\":5.5,\"step\":1}\n{\"st", true},
               {"{\"applied\":1,\"step\":1,\"lo", true},  // killed while it was written
               {"the only copy of a thesis\n", false},
               {"no newline", false},
               {"{\"name\": \"strata\"}\n", false},
               {"[{\"step\": 1}]\n", false},
               {std::string(100'000, '{'), false}};
  for (const auto& [text, taken] : cases) {
    Write("m.jsonl", text);
    const absl::Status status = CheckMetricsPath(folder_ + "/m.jsonl", *job);
    EXPECT_EQ(status.ok(), taken) << text.substr(0, 50) << status;
    EXPECT_EQ(fs::file_size(folder_ + "/m.jsonl"), text.size());
  }
  EXPECT_THAT(std::string(CheckMetricsPath(folder_ + "/none/m.jsonl", *job).message()),
              HasSubstr("cannot be written"));
}

TEST_F(JobLoading, WritableFileCheckLeavesNothingBehind) {
  EXPECT_TRUE(CheckWritableFile(folder_ + "/m.jsonl").ok());
  EXPECT_FALSE(fs::exists(folder_ + "/m.jsonl"));
  EXPECT_TRUE(CheckWritableFile(folder_ + "/text.txt").ok());
  EXPECT_EQ(fs::file_size(folder_ + "/text.txt"), 20'000u);
  EXPECT_FALSE(CheckWritableFile(folder_ + "/text.txt/m.jsonl").ok());
  EXPECT_FALSE(CheckWritableFile(folder_ + "/folder").ok());
}

TEST_F(JobLoading, ModelOfADirectoryThatFitsNowhereIsInfeasibleWithTheBytes) {
  fs::create_directories(folder_ + "/the-model");
  Write("the-model/config.json",
        R"({"model_type": "llama", "hidden_size": 1024, "num_attention_heads": 8,
            "intermediate_size": 4096, "num_hidden_layers": 8, "vocab_size": 256,
            "max_position_embeddings": 64})");
  Write("from.yaml", "model: {from: the-model}\ndata: {train: [{path: text.txt}]}\n");
  const auto load = [&](int64_t memory) {
    return LoadJob(folder_ + "/from.yaml", {}, {.memory_bytes = memory});
  };
  const auto job = load(int64_t{1} << 30);
  EXPECT_EQ(job.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(job.status().message()),
      ContainsRegex("from.yaml:1:1: model: does not fit: needs at least .*134.76 M parameters"));
  EXPECT_TRUE(load(int64_t{4} << 30).ok());
}

TEST(Feasibility, BytesOfAParameterAreCountedOnceWhereTheyAreSharded) {
  using v1::ParallelSpec;
  v1::JobSpec job;
  job.mutable_parallel()->set_data(2);
  const auto bytes = [&](ParallelSpec::Shard shard) {
    job.mutable_parallel()->set_shard(shard);
    return LeastBytes(job, 1000);
  };
  EXPECT_EQ(bytes(ParallelSpec::SHARD_NONE), 32'000);
  EXPECT_EQ(bytes(ParallelSpec::SHARD_ZERO1), 24'000);
  EXPECT_EQ(bytes(ParallelSpec::SHARD_ZERO2), 20'000);
  EXPECT_EQ(bytes(ParallelSpec::SHARD_ZERO3), 16'000);
  EXPECT_TRUE(CheckFits(job, 1000, 0).ok());
  EXPECT_TRUE(CheckFits(job, 1000, 16'000).ok());
  EXPECT_FALSE(CheckFits(job, 1000, 15'999).ok());
}

TEST(Feasibility, OfAdaptersTheWeightsBesideThemCountAlone) {
  v1::JobSpec job;
  job.mutable_parallel()->set_data(1);
  job.mutable_train()->set_precision(v1::TrainSpec::PRECISION_BF16);
  job.mutable_train()->set_method(v1::TrainSpec::METHOD_LORA);
  EXPECT_EQ(LeastBytes(job, 1000), 2000);
  job.mutable_train()->set_method(v1::TrainSpec::METHOD_QLORA);
  EXPECT_EQ(LeastBytes(job, 1000), 500);
  job.mutable_train()->mutable_quantize()->set_type(v1::QuantizeSpec::TYPE_INT8);
  EXPECT_EQ(LeastBytes(job, 1000), 1000);
}

}  // namespace
}  // namespace strata::client
